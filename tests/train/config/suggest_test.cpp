#include "train/config/suggest.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("momentum", "momentum"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("lr", "rl"), 1u);         // swapped
  EXPECT_EQ(edit_distance("epoch", "epochs"), 1u);  // inserted
  EXPECT_EQ(edit_distance("hidden", "hiden"), 1u);  // removed
  EXPECT_EQ(edit_distance("optimizer", "optimiser"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // a letter is not touched twice
}

TEST(Suggest, LooksAtTheLastPartFirst) {
  const std::vector<KnownKey> known = {{"optimizer.lr", {"learning_rate"}},
                                       {"optimizer.name", {}},
                                       {"model.name", {}},
                                       {"train.epochs", {}},
                                       {"seed", {}}};
  EXPECT_EQ(suggest("optimizer.epochs", known), "did you mean train.epochs?");
  EXPECT_EQ(suggest("train.learning_rte", known), "did you mean optimizer.lr?");
  EXPECT_EQ(suggest("model.nmae", known), "did you mean model.name?");
  EXPECT_EQ(suggest("nmae", known), "did you mean optimizer.name or model.name?");
  EXPECT_EQ(suggest("train.sede", known), "did you mean seed?");
  EXPECT_EQ(suggest("train.epxyz", known), "the nearest known key is train.epochs");
}

TEST(Nearest, IsEmptyWhereNothingIsNear) {
  const std::vector<std::string> words = {"model", "data", "schedule"};
  EXPECT_EQ(nearest("shedule", words), "schedule");
  EXPECT_EQ(nearest("dtaa", words), "data");
  EXPECT_EQ(nearest("xyzzy", words), "");
}

}  // namespace
}  // namespace lockstep::train
