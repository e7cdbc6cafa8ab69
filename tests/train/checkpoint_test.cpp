#include "train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/train/parallel/toy_training.h"
#include "train/checkpoint_folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-checkpoint-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

// A replica alone in its world, after some real updates so that no state is empty.
class LoneReplica {
 public:
  explicit LoneReplica(const ToyProblem& problem = trained()) {
    context_ = device::make_cpu_context(1);
    communicator_ = comm::make_ring_communicator(std::move(comm::make_thread_groups(1)[0]), {});
    replica_ = make_toy_replica({*context_, *communicator_}, problem);
  }

  static ToyProblem trained() {
    ToyProblem problem;
    problem.momentum = 0.9;
    return problem;
  }

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      const Tensor x = Tensor::empty(*context_, Shape{8, 12});
      const Tensor labels = Tensor::empty(*context_, Shape{8}, DType::int64);
      fill_batch<float>(ToyProblem{}, {step * 8, step * 8 + 8}, 0, x, labels);
      replica_->begin_update(step + 1);
      replica_->backward(
          ops::cross_entropy(replica_->model()(Variable(x)), labels, 1.0 / 8).loss_sum);
      replica_->finish_backward();
      replica_->update(0.1);
    }
  }

  Replica& operator*() { return *replica_; }
  Replica* operator->() { return replica_.get(); }
  std::string weights() { return weights_digest(replica_->arena()); }
  std::string optimizer() {
    return optimizer_digest(replica_->arena(), replica_->gather_optimizer_state());
  }

 private:
  std::unique_ptr<Context> context_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<Replica> replica_;
};

constexpr Progress progress{.epoch = 2, .step_in_epoch = 5, .steps_done = 37, .world_size = 4};

TEST_F(Checkpoint, RestoresEverything) {
  LoneReplica saved;
  saved.train(5);
  save_checkpoint(path("a.h5"), *saved, saved->gather_optimizer_state(), progress, "seed: 1\n");
  LoneReplica loaded;
  ASSERT_NE(loaded.weights(), saved.weights());
  ASSERT_NE(loaded.optimizer(), saved.optimizer());
  const Progress found = load_checkpoint(path("a.h5"), *loaded);
  EXPECT_EQ(found.epoch, progress.epoch);
  EXPECT_EQ(found.step_in_epoch, progress.step_in_epoch);
  EXPECT_EQ(found.steps_done, progress.steps_done);
  EXPECT_EQ(found.world_size, progress.world_size);
  EXPECT_EQ(loaded.weights(), saved.weights());
  EXPECT_EQ(loaded.optimizer(), saved.optimizer());
  EXPECT_EQ(loaded->optimizer().updates(), 5);
  saved.train(3);
  loaded.train(3);
  EXPECT_EQ(loaded.weights(), saved.weights());
}

TEST_F(Checkpoint, IsSummarized) {
  LoneReplica saved;
  saved.train(1);
  save_checkpoint(path("a.h5"), *saved, saved->gather_optimizer_state(), progress,
                  "seed: 1\nmodel: {name: mlp}\n");
  const CheckpointSummary summary = summarize_checkpoint(path("a.h5"));
  EXPECT_EQ(summary.config, "seed: 1\nmodel: {name: mlp}\n");
  EXPECT_EQ(summary.weights_digest, saved.weights());
  EXPECT_EQ(summary.optimizer_digest, saved.optimizer());
  EXPECT_EQ(summary.optimizer, "sgd");
  EXPECT_EQ(summary.parameters, saved->arena().parameter_count());
}

std::string load_error(const std::string& path, Replica& replica) {
  try {
    load_checkpoint(path, replica);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Checkpoint, OfAnotherModelIsRefused) {
  LoneReplica saved;
  save_checkpoint(path("a.h5"), *saved, saved->gather_optimizer_state(), progress, "");
  ToyProblem wider = LoneReplica::trained();
  wider.make_model = [](Context& context, const ToyProblem& p) {
    return models::make_model(context, "mlp", {{"hidden", std::vector<std::int64_t>{17, 8}}},
                              {Shape{p.features}, p.classes, p.dtype}, p.seed);
  };
  LoneReplica other(wider);
  EXPECT_THAT(load_error(path("a.h5"), *other),
              AllOf(HasSubstr("a.h5"), HasSubstr("hidden."), HasSubstr("found shape")));
  ToyProblem deeper = LoneReplica::trained();
  deeper.make_model = [](Context& context, const ToyProblem& p) {
    return models::make_model(context, "mlp", {{"hidden", std::vector<std::int64_t>{16, 8, 8}}},
                              {Shape{p.features}, p.classes, p.dtype}, p.seed);
  };
  LoneReplica deep(deeper);
  EXPECT_THAT(load_error(path("a.h5"), *deep), HasSubstr("hidden.2"));
  save_checkpoint(path("deep.h5"), *deep, deep->gather_optimizer_state(), progress, "");
  EXPECT_THAT(load_error(path("deep.h5"), *saved), HasSubstr("'hidden.2"));
}

TEST_F(Checkpoint, ThatIsDamagedIsRefused) {
  LoneReplica saved;
  saved.train(2);
  save_checkpoint(path("a.h5"), *saved, saved->gather_optimizer_state(), progress, "");
  const auto size = fs::file_size(path("a.h5"));

  fs::copy_file(path("a.h5"), path("half.h5"));
  fs::resize_file(path("half.h5"), size / 2);
  EXPECT_THAT(load_error(path("half.h5"), *saved), HasSubstr("half.h5"));

  std::ofstream(path("noise.h5")) << std::string(5000, 'x');
  EXPECT_THAT(load_error(path("noise.h5"), *saved), HasSubstr("not an HDF5 file"));
  EXPECT_THAT(load_error(path("missing.h5"), *saved), HasSubstr("not found"));
  EXPECT_THAT(load_error(folder_.string(), *saved), HasSubstr("not a file"));

  // One bit of one weight, found by the digest.
  const auto weight = saved->model().named_parameters()[0].variable.value();
  const std::string bytes(static_cast<const char*>(weight.data()), 64);
  std::ifstream in(path("a.h5"), std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(in)), {});
  const auto place = content.find(bytes);
  ASSERT_NE(place, std::string::npos);
  content[place + 10] = static_cast<char>(content[place + 10] ^ 1);
  std::ofstream(path("flipped.h5"), std::ios::binary) << content;
  EXPECT_THAT(load_error(path("flipped.h5"), *saved), HasSubstr("damaged"));
}

TEST_F(Checkpoint, FailedSaveLeavesNothingAndSaysWhy) {
  LoneReplica saved;
  try {
    save_checkpoint(path("no/such/folder/a.h5"), *saved, saved->gather_optimizer_state(), progress,
                    "");
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/such/folder/a.h5"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Checkpoint, FolderKeepsTheLastOnes) {
  LoneReplica saved;
  std::ofstream(path("step-00000001.h5.tmp")) << "left by a killed run";
  const Log log = Log::silent();
  CheckpointFolder folder({.path = folder_.string(), .keep_last = 2, .stop_on_error = true}, log);
  EXPECT_TRUE(fs::is_empty(folder_));
  for (std::int64_t step : {5, 10, 15, 200}) {
    Progress at = progress;
    at.steps_done = step;
    folder.save(*saved, saved->gather_optimizer_state(), at, "");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
  EXPECT_EQ(newest_checkpoint(folder_.string()), path("step-00000200.h5"));
  EXPECT_TRUE(fs::exists(path("step-00000015.h5")));
  folder.require_last_save();
}

TEST_F(Checkpoint, FolderThatCannotBeIsFoundAtOnce) {
  const Log log = Log::silent();
  std::ofstream(path("file")) << "x";
  EXPECT_THROW(CheckpointFolder({.path = path("file")}, log), CheckpointError);
  EXPECT_THROW(CheckpointFolder({.path = path("file/below")}, log), CheckpointError);
}

TEST_F(Checkpoint, GoingOnAfterAFailedSaveStillEndsWithAnError) {
  LoneReplica saved;
  const Log log = Log::silent();
  CheckpointFolder folder({.path = path("checkpoints"), .keep_last = 2, .stop_on_error = false},
                          log);
  fs::remove_all(path("checkpoints"));
  folder.save(*saved, saved->gather_optimizer_state(), progress, "");
  EXPECT_THROW(folder.require_last_save(), CheckpointError);
  fs::create_directory(path("checkpoints"));
  folder.save(*saved, saved->gather_optimizer_state(), progress, "");
  EXPECT_NO_THROW(folder.require_last_save());
}

TEST_F(Checkpoint, IsFoundByFileRunOrConfiguration) {
  LoneReplica saved;
  for (const char* run : {"mlp-1", "mlp-2", "other-3"}) {
    fs::create_directories(path(std::string(run) + "/checkpoints"));
    save_checkpoint(path(std::string(run) + "/checkpoints/step-00000007.h5"), *saved,
                    saved->gather_optimizer_state(), progress, "");
  }
  const std::string second = path("mlp-2/checkpoints/step-00000007.h5");
  EXPECT_EQ(find_checkpoint(second, "", ""), second);
  EXPECT_EQ(find_checkpoint(path("mlp-2"), "", ""), second);
  EXPECT_EQ(find_checkpoint(path("mlp-2/checkpoints"), "", ""), second);
  fs::last_write_time(path("mlp-1/checkpoints/step-00000007.h5"),
                      fs::last_write_time(second) - std::chrono::hours(1));
  EXPECT_EQ(find_checkpoint("", folder_.string(), "mlp"), second);
  EXPECT_THROW(find_checkpoint("", folder_.string(), "gpt"), CheckpointError);
  EXPECT_THROW(find_checkpoint(path("nothing"), folder_.string(), "mlp"), CheckpointError);
}

}  // namespace
}  // namespace lockstep::train
