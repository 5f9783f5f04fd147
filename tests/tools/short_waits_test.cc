// OpenMP's settings: libgomp prints them when it is loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/process.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string settings_of_openmp(std::map<std::string, std::string> environment) {
  environment["OMP_DISPLAY_ENV"] = "verbose";
  return run_process({MILLRACE_PROGRAM, "train", "--help"}, {.environment = environment}).err;
}

TEST(ShortWaits, AreAskedOfOpenMp) {
  EXPECT_THAT(settings_of_openmp({{"GOMP_SPINCOUNT", ""}}), HasSubstr("GOMP_SPINCOUNT = '1000'"));
}

TEST(ShortWaits, AreTheUsersWhereTheUserSaysSo) {
  EXPECT_THAT(settings_of_openmp({{"GOMP_SPINCOUNT", "5000"}}),
              AllOf(HasSubstr("GOMP_SPINCOUNT = '5000'"), Not(HasSubstr("'1000'"))));
  EXPECT_THAT(settings_of_openmp({{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", ""}}),
              Not(HasSubstr("GOMP_SPINCOUNT = '1000'")));
}

}  // namespace
}  // namespace millrace::testing
