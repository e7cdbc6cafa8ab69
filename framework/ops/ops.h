// All differentiable operations.
//
// Each is a free function on Variables, written once for every device, in a file of its own beside
// its gradient. Shape and dtype mistakes throw UsageError naming the op, the operand and the
// shapes.
#pragma once

#include "framework/ops/activation.h"
#include "framework/ops/arithmetic.h"
#include "framework/ops/batch_norm.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/dropout.h"
#include "framework/ops/embedding.h"
#include "framework/ops/linear.h"
#include "framework/ops/matmul.h"
#include "framework/ops/mse.h"
#include "framework/ops/reduce.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"
