// How power_sgd cuts a bucket into matrices and the rest. Private to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/bucketing/bucket_plan.h"
#include "comm/communicator.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::train {

// Rows of one weight that lie in a bucket as a whole.
struct Matrix {
  std::string name;        // of the weight and the first of the rows
  std::int64_t begin = 0;  // in elements of the bucket
  std::int64_t rows = 0, columns = 0;
  std::int64_t left = 0, right = 0;  // where its P and Q begin among those of the bucket
  std::int64_t count() const { return rows * columns; }
};

// How the elements of a bucket travel.
struct BucketParts {
  std::vector<Matrix> matrices;
  std::vector<comm::Slice> rest;  // what is in none of them, in elements of the bucket
  std::int64_t left = 0, right = 0, others = 0;  // elements of P, of Q, and of the rest
};

// With an approximation of so many columns.
BucketParts parts_of(const comm::Bucket& bucket, const nn::ParameterArena& arena, int rank);

}  // namespace lockstep::train
