// How runs start: side by side, without a network, with a left-over environment, without devices.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include "tests/end_to_end/sandbox.h"
#include "tests/end_to_end/surroundings.h"
#include "tests/support/port.h"

namespace lockstep::tests {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Arguments brief{"train.epochs=1"};

// START-1
TEST(TwoRunsAtOnce, DoNotMix) {
  const Sandbox sandbox;
  const auto alone = sandbox.run(sandbox.train(4, brief));
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  std::set<std::string> folders;
  for (int pair = 0; pair < 10; ++pair) {
    Program first(sandbox.train(4, brief), sandbox.options());
    Program second(sandbox.train(4, brief), sandbox.options());
    for (Program* program : {&first, &second}) {
      const auto end = program->wait();
      EXPECT_EQ(end.exit_code, 0) << end.output;
      EXPECT_EQ(final_weights(end), final_weights(alone));
      folders.insert(run_folder(sandbox, end));
    }
  }
  EXPECT_EQ(folders.size(), 20u);
}

TEST(Port, ThatIsTakenIsNamed) {
  const Sandbox sandbox;
  const comm::Descriptor taken = comm::listen_tcp("127.0.0.1", 0);
  const std::string port = std::to_string(comm::local_port(taken));
  const auto end = sandbox.run(sandbox.train(4, {"comm.port=" + port}));
  EXPECT_EQ(end.exit_code, 5) << end.output;
  EXPECT_LT(end.seconds, 5);
  EXPECT_THAT(end.output, AllOf(HasSubstr(port), HasSubstr("in use")));
}

TEST(Port, GivenCarriesTheRendezvous) {
  const Sandbox sandbox;
  const auto end =
      sandbox.run(sandbox.train(4, {"train.epochs=1", "comm.port=" + std::to_string(free_port())}));
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(final_weights(end), final_weights(sandbox.run(sandbox.train(4, brief))));
}

TEST(Start, IsQuickAndTimed) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(8, brief));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  std::smatch match;
  ASSERT_TRUE(std::regex_search(end.output, match,
                                std::regex("all 8 ranks are there after ([0-9.]+) (ms|s)")))
      << end.output;
  const double seconds = std::stod(match[1]) * (match[2] == "ms" ? 1e-3 : 1);
  EXPECT_LT(seconds, 5);
}

// START-2
TEST(Namespace, WithoutNamesOrNetworkTrains) {
  if (!may_make_namespaces()) GTEST_SKIP() << "network namespaces need root here";
  const Sandbox sandbox;
  const auto outside = sandbox.run(sandbox.train(4, brief));
  for (const char* name : {"does-not-resolve", "123456"}) {
    const auto end = sandbox.run(in_namespace(name, sandbox.train(4, brief)));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    EXPECT_LT(end.seconds, 5);
    EXPECT_EQ(final_weights(end), final_weights(outside));
  }
}

TEST(Interface, ThatDoesNotExistIsAnswered) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(4, {}, {"--interface", "nosuch0"}));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("nosuch0"), HasSubstr("lo")));
  const auto set = sandbox.run(sandbox.train(4, {"comm.interface=nosuch0"}));
  EXPECT_EQ(set.exit_code, 2) << set.output;
}

// START-3
TEST(LeftOverEnvironment, IsIgnoredAndSaid) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(2, brief), {{"RANK", "3"},
                                                         {"WORLD_SIZE", "16"},
                                                         {"MASTER_PORT", "1"},
                                                         {"SLURM_PROCID", "5"},
                                                         {"SLURM_NTASKS", "8"},
                                                         {"OMPI_COMM_WORLD_RANK", "2"}});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("world size 2"), HasSubstr("ignored"),
                                HasSubstr("WORLD_SIZE"), HasSubstr("SLURM_PROCID")));
}

// START-4, on a machine without a GPU or a driver
TEST(Devices, FallBackToTheCpuUnlessAskedFor) {
  const Sandbox sandbox;
  const auto automatic = sandbox.run(sandbox.train(8, brief));
  EXPECT_EQ(automatic.exit_code, 0);
  if (automatic.output.find("no GPU found") == std::string::npos)
    GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(automatic.output, HasSubstr("training with 8 CPU workers"));
  const auto asked = sandbox.run(sandbox.train(8, brief, {"--device", "cuda"}));
  EXPECT_EQ(asked.exit_code, 5) << asked.output;
  EXPECT_LT(asked.seconds, 5);
  EXPECT_THAT(asked.output, AllOf(HasSubstr("asked for 8"), HasSubstr("found 0"),
                                  HasSubstr("--device cpu"), HasSubstr("--oversubscribe")));
}

// COLL-3
TEST(Backend, ThatIsNotThereIsAnsweredWithTheOnesThatAre) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(2, {}, {"--backend", "carrier_pigeon"}));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("carrier_pigeon"), HasSubstr("ring")));
}

// SHM-1
TEST(SharedMemory, TooLittleIsFoundBeforeTraining) {
  const Sandbox sandbox;
  Arguments command = sandbox.train(8, {"model.hidden=[2048, 2048]"});
  Arguments limited{"sh", "-c", "ulimit -f 4096; exec \"$@\"",
                    "sh"};  // files of 2 or 4 MiB at most
  limited.insert(limited.end(), command.begin(), command.end());
  const auto end = sandbox.run(limited);
  EXPECT_EQ(end.exit_code, 5) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("MiB"), HasSubstr("rank")));
  EXPECT_THAT(end.output, Not(HasSubstr("signal")));
}

TEST(SharedMemory, DoesNotNeedDevShm) {
  if (!may_make_namespaces()) GTEST_SKIP() << "mount namespaces need root here";
  const Sandbox sandbox;
  Arguments command{
      "unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m none /dev/shm && exec \"$@\"",
      "sh"};
  const Arguments train = sandbox.train(8, {"model.hidden=[512, 512]", "train.epochs=1"});
  command.insert(command.end(), train.begin(), train.end());
  const auto end = sandbox.run(command);
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

// SEC-1
int connect_to(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      return descriptor;
    std::this_thread::sleep_for(10ms);
  }
  close(descriptor);
  return -1;
}

TEST(Strangers, AreNotListenedTo) {
  const Sandbox sandbox;
  Program program(sandbox.train(4, {"train.epochs=100000"}), sandbox.options());
  program.wait_for_output("epoch 1/100000 done");
  for (pid_t pid : program.running()) EXPECT_EQ(listening_ports_of(pid), "");
  program.signal(SIGKILL);
  program.wait();
}

TEST(Strangers, AtTheStoreDisturbNothing) {
  const Sandbox sandbox;
  const auto expected = sandbox.run(sandbox.train(4, {"train.epochs=1"}));
  const int port = free_port();
  Program program(sandbox.train(4, {"train.epochs=1", "comm.port=" + std::to_string(port)}),
                  sandbox.options({{"TRAIN_FAULT", "rank=3,at=start,do=stall:1"}}));
  std::vector<int> strangers;
  const std::string greetings[] = {"", std::string("\x13\x37\x00\xff random \x01\x02", 16),
                                   "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "l"};
  for (const auto& greeting : greetings) {
    strangers.push_back(connect_to(port));
    ASSERT_GE(strangers.back(), 0);
    if (!greeting.empty()) {
      EXPECT_GT(send(strangers.back(), greeting.data(), greeting.size(), MSG_NOSIGNAL), 0);
    }
  }
  close(connect_to(port));
  const auto end = program.wait();
  for (int stranger : strangers) close(stranger);
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(final_weights(end), final_weights(expected));
}

}  // namespace
}  // namespace lockstep::tests
