// devices: plugins that start, that do not, that hang, and that end their process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// A folder of Python packages with one plugin.
std::string packages_with(const TempDir& dir, const std::string& plugin) {
  const std::string package = dir / "xla_plugins/one";
  std::filesystem::create_directories(package);
  std::filesystem::create_symlink(plugin, package + "/pjrt_plugin.so");
  return dir.path();
}

TEST(Devices, ListTheMachinesCores) {
  const auto lines = json_lines(millrace({"devices", "--json"}).out);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0]["name"], "cpu");
  EXPECT_GE(lines[0]["cores"], 1);
}

#ifdef MILLRACE_FAKE_PLUGIN
std::string fake_devices(const std::string& mode, std::vector<std::string> words) {
  const TempDir dir;
  words.insert(words.begin(),
               {"devices", "--plugin-path", packages_with(dir, MILLRACE_FAKE_PLUGIN)});
  const ProcessResult result = millrace(words, {.environment = {{"FAKE_PLUGIN", mode}}});
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

TEST(Devices, AreALineEvenIfThePluginDoesNotStart) {
  EXPECT_THAT(fake_devices("", {}), HasSubstr("fake: no devices; interface"));
  EXPECT_THAT(fake_devices("fails", {}), HasSubstr("17 GiB are needed"));
  EXPECT_THAT(fake_devices("stuck", {"--timeout", "1"}),
              HasSubstr("does not start: it has not in 1 s (--timeout)"));
  EXPECT_THAT(fake_devices("aborts", {}), HasSubstr("killed by signal 6"));
  const auto lines = json_lines(fake_devices("fails", {"--json"}));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(std::string(lines[1]["error"]), HasSubstr("17 GiB are needed"));
}

TEST(Devices, OfXlasPluginForTheCpuAreListed) {
  const TempDir dir;
  const ProcessResult result =
      millrace({"devices", "--plugin-path", packages_with(dir, MILLRACE_CPU_PLUGIN), "--json"});
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 2U) << result.err;
  EXPECT_EQ(lines[1]["platform"], "cpu");
  EXPECT_FALSE(lines[1]["devices"].empty());
  const ProcessResult alone = millrace({"devices", "--plugin", MILLRACE_CPU_PLUGIN});
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("cpu: "));
}
#endif

}  // namespace
}  // namespace millrace::testing
