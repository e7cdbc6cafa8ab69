// An operation for tests of the engine: the sum of inputs of one shape, which writes down what
// happens to it and can be told to misbehave.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/autograd/node.h"

namespace lockstep::autograd {

using Events = std::vector<std::string>;

enum class Hand {
  write,    // through slot()
  give,     // the incoming gradient itself
  mixed,    // slot() and give() in turn
  early,    // through slot(), finished before the probe returns
  nothing,  // the faults
  twice,
  unwanted,
  wrong_shape,
  wrong_dtype,
  finished_twice,
  finished_too_much,
  finished_unbegun,
  raise,
};

struct ProbeOptions {
  Hand hand = Hand::write;
  bool save = false;  // keeps a copy of its output until released
  bool asks = false;  // whether it alone contributes, for "alone NAME" of an input's producer
  Events* events = nullptr;  // gets "run NAME" when its backward starts, "end NAME" when it
                             // returns, "drop NAME" when the node goes
};

// `name` must outlive the graph.
Variable probe(std::string_view name, const std::vector<Variable>& inputs,
               const ProbeOptions& options = {});

}  // namespace lockstep::autograd
