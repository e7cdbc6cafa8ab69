#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The message of the ConfigError that `call` has to throw.
std::string config_error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no ConfigError";
  return "";
}

class RegistryTest : public testing::Test {
 protected:
  std::string error_for(std::string_view name, const Options& options) {
    return config_error_of([&] { make_model(*context_, name, options, input_, 1); });
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
  ModelInput input_{.features = {4, 3}, .classes = 5};
};

TEST_F(RegistryTest, EveryModelIsDocumentedSortedAndMadeFromItsDefaults) {
  EXPECT_TRUE(std::ranges::is_sorted(models(), {}, &ModelSpec::name));
  for (const ModelSpec& model : models()) {
    SCOPED_TRACE(model.name);
    EXPECT_FALSE(model.doc.empty());
    std::set<std::string> names;
    for (const OptionSpec& option : model.options) {
      EXPECT_TRUE(names.insert(option.name).second) << option.name;
      EXPECT_NE(option.name, "name");  // the key that names the model
      EXPECT_FALSE(option.doc.empty()) << option.name;
    }
    EXPECT_GT(make_model(*context_, model.name, {}, input_, 1)->parameter_count(), 0);
  }
}

TEST_F(RegistryTest, UnknownModelListsTheKnownOnes) {
  EXPECT_THAT(error_for("mpl", {}),
              AllOf(HasSubstr("model.name"), HasSubstr("mpl"), HasSubstr("mlp")));
}

TEST_F(RegistryTest, UnknownOptionListsTheKnownOnes) {
  EXPECT_THAT(error_for("mlp", {{"hiden", std::vector<std::int64_t>{3}}}),
              AllOf(HasSubstr("model.hiden"), HasSubstr("hidden"), HasSubstr("activation")));
}

TEST_F(RegistryTest, ValuesThatAreNotAllowedAreNamed) {
  EXPECT_THAT(error_for("mlp", {{"hidden", std::vector<std::int64_t>{8, 0}}}),
              AllOf(HasSubstr("model.hidden"), HasSubstr("[8, 0]"),
                    HasSubstr("integers in [1, 2147483647]")));
  EXPECT_THAT(error_for("mlp", {{"hidden", std::int64_t{8}}}), HasSubstr("list of integers"));
  EXPECT_THAT(error_for("mlp", {{"dropout", 1.0}}),
              AllOf(HasSubstr("model.dropout"), HasSubstr("in [0, 1)")));
  EXPECT_THAT(error_for("mlp", {{"activation", "swish"}}),
              AllOf(HasSubstr("model.activation"), HasSubstr("swish"),
                    HasSubstr("relu, gelu, gelu_tanh, tanh or sigmoid")));
}

TEST_F(RegistryTest, ImpossibleInputsAreErrors) {
  EXPECT_THROW(make_model(*context_, "mlp", {}, {.features = {0}, .classes = 2}, 1), UsageError);
  EXPECT_THROW(make_model(*context_, "mlp", {}, {.features = {3}, .classes = 0}, 1), UsageError);
}

}  // namespace
}  // namespace lockstep::models
