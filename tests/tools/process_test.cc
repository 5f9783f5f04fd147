// The program as a process: OpenMP's settings, and signals at awkward moments.
#include "tests/support/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string settings_of_openmp(std::map<std::string, std::string> environment) {
  environment["OMP_DISPLAY_ENV"] = "verbose";
  return run_process({MILLRACE_PROGRAM, "train", "--summary"}, {.environment = environment}).err;
}

TEST(ShortWaits, AreAskedOfOpenMp) {
  EXPECT_THAT(settings_of_openmp({{"GOMP_SPINCOUNT", ""}}), HasSubstr("GOMP_SPINCOUNT = '1000'"));
}

TEST(ShortWaits, AreNotAskedForToShowTheHelp) {
  const ProcessResult help =
      run_process({MILLRACE_PROGRAM, "train", "--help"},
                  {.environment = {{"GOMP_SPINCOUNT", ""}, {"OMP_DISPLAY_ENV", "verbose"}}});
  EXPECT_EQ(count_of(help.err, "OPENMP DISPLAY ENVIRONMENT BEGIN"), 1U) << "it began once";
}

TEST(ShortWaits, AreTheUsersWhereTheUserSaysSo) {
  EXPECT_THAT(settings_of_openmp({{"GOMP_SPINCOUNT", "5000"}}),
              AllOf(HasSubstr("GOMP_SPINCOUNT = '5000'"), Not(HasSubstr("'1000'"))));
  EXPECT_THAT(settings_of_openmp({{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", ""}}),
              Not(HasSubstr("GOMP_SPINCOUNT = '1000'")));
}

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A run that would take hours, in a shell's background; $pid is its process, which has started
/// anew with OpenMP's settings when the rest of the script begins.
ProcessResult beside_training(const std::string& rest) {
  const std::string start =
      std::string("'") + MILLRACE_PROGRAM +
      "' train --fake-data 1000000 --model lenet --classes 10 --run-dir none 2>/dev/null & pid=$!; "
      "until tr '\\0' '\\n' </proc/$pid/environ | grep -q GOMP_SPINCOUNT=1000; do sleep 0.02; "
      "done; ";
  return run_process({"/bin/sh", "-c", start + rest}, {.environment = {{"GOMP_SPINCOUNT", ""}}});
}

TEST(Signals, ThatComeBeforeTheRestartAreKept) {
  const ProcessResult result =
      millrace({"train", "--fake-data", "1000000", "--model", "lenet", "--classes", "10",
                "--run-dir", "none"},
               {.environment = {{"GOMP_SPINCOUNT", ""}, {"LD_PRELOAD", MILLRACE_SIGNAL_AT_EXEC}}});
  EXPECT_EQ(result.status, 128 + SIGTERM);
  EXPECT_THAT(result.err, HasSubstr("interrupted")) << "it ended as a run does";
}

/// A run in its twentieth step gets the signals of `kills`, a script that has its number as $pid;
/// it prints its status.
ProcessResult in_training(const TempDir& dir, const std::string& kills) {
  return run_process(
      {"/bin/sh", "-c",
       std::string("'") + MILLRACE_PROGRAM +
           "' train --fake-data 1000000 --model lenet --classes 10 --log-steps 20 --run-dir '" +
           (dir / "run") + "' 2>log & pid=$!; until grep -q Step=20 log; do sleep 0.02; done; " +
           kills + "; wait $pid; echo $?"},
      {.folder = dir.path().string()});
}

TEST(Signals, ThatASchedulerSendsAheadOfItsLimitSaveAndStop) {
  const TempDir dir;
  EXPECT_EQ(in_training(dir, "kill -USR1 $pid; kill -USR1 $pid").out,
            std::to_string(128 + SIGUSR1) + "\n");
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/last/state.json"));
}

// As Slurm does when a job's time is over.
TEST(Signals, ThatComeTwiceWithinASecondAreOne) {
  const TempDir dir;
  EXPECT_EQ(in_training(dir, "kill -TERM $pid; kill -CONT $pid; sleep 0.02; kill -TERM $pid").out,
            std::to_string(128 + SIGTERM) + "\n");
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/last/state.json"));
  EXPECT_THAT(testing::read_file(dir / "log"),
              AllOf(HasSubstr("a signal: the run ends after the step in flight"),
                    HasSubstr("checkpoints/last; --resume auto continues from it")));
}

TEST(Signals, OfOthersDoNotEndTheWaitForOurs) {
  const ProcessResult result =
      beside_training("kill -USR2 $pid; sleep 0.2; kill -TERM $pid; wait $pid; echo $?");
  EXPECT_EQ(result.out, std::to_string(128 + SIGUSR2) + "\n") << "what it does to any program";
}

TEST(Signals, FindAProcessByItsName) {
  const ProcessResult result = beside_training("cat /proc/$pid/comm; kill -KILL $pid; wait $pid");
  EXPECT_THAT(result.out, StartsWith("millrace\n"));
}

TEST(Signals, AFileThatMayNotGrowIsAFaultWithItsPath) {
  const TempDir dir;
  const ProcessResult result =
      run_process({"/bin/sh", "-c",
                   std::string("ulimit -f 8; exec '") + MILLRACE_PROGRAM + "' create '" +
                       (dir / "a-%06d.tar") + "' --synthetic classes --count 2000 --size 16"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_THAT(result.err, HasSubstr("a-000000.tar"));
  for (const std::string& name : list_dir(dir.path().string()))
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
}

}  // namespace

}  // namespace millrace::testing
