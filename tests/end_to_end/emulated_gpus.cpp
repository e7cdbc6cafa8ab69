#include "tests/end_to_end/emulated_gpus.h"

#include <cstdlib>

namespace lockstep::tests {
namespace {

Arguments small_run(const Sandbox& sandbox, int workers, Arguments settings,
                    const Arguments& more) {
  settings.insert(settings.begin(),
                  {"train.batch_size=16", "train.epochs=1", "consistency.every=1"});
  return sandbox.train(workers, settings, more);
}

}  // namespace

// Emulated threads take turns, which costs much where they are kept on different cores.
Arguments on_gpus(const Sandbox& sandbox, int workers, const Arguments& settings,
                  const Arguments& more) {
  Arguments command = small_run(sandbox, workers, settings, more);
  command.front() = LOCKSTEP_TRAIN_EMULATED;
  if (const char* const real = std::getenv("LOCKSTEP_TRAIN_ON_GPUS")) {
    command.front() = real;
    command.emplace_back("--oversubscribe");
  }
  for (const char* const word :
       {"--device", "cuda", "--launcher", "threads", "--set", "compute.pin=off"})
    command.emplace_back(word);
  return command;
}

Arguments on_cpus(const Sandbox& sandbox, int workers, const Arguments& settings,
                  const Arguments& more) {
  Arguments command = small_run(sandbox, workers, settings, more);
  for (const char* const word : {"--device", "cpu"}) command.emplace_back(word);
  return command;
}

Environment seed(int number) {
  return {{"LOCKSTEP_EMULATION_SEED", std::to_string(number)}};
}

std::vector<double> losses_of(const Sandbox& sandbox, const Program::End& end) {
  std::vector<double> values;
  for (const char* const kind : {"step", "evaluation"})
    for (const auto& record : metrics(run_folder(sandbox, end), kind))
      values.push_back(record["loss"].get<double>());
  return values;
}

}  // namespace lockstep::tests
