// What must be the same on every rank before the first step, compared line by line.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "framework/nn/module.h"

namespace lockstep::train {

// One line for each parameter and buffer: name, type and shape.
std::string describe_model(const nn::Module& model);

// Collective. Compares the hashes of every rank's `text`, lines of "name: value"; only when they
// differ the texts themselves. Throws RankError on every rank, with the rank that differs from most
// others and the first line in which it does, as both sides have it.
void require_agreement(Context& context, comm::Communicator& communicator, const std::string& text,
                       Stream& stream);

}  // namespace lockstep::train
