// PJRT plugins: where they are, what is refused, and XLA's own for the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "device/pjrt/client.h"
#include "device/pjrt/plugin.h"
#include "io/base/error.h"
#include "tests/support/temp_dir.h"

namespace millrace::device::pjrt {
namespace {

using ::testing::HasSubstr;

TEST(PluginPlaces, AreThoseOfPythonPackages) {
  const testing::TempDir folder;
  const auto put = [&](const std::string& name, const std::string& text = "") {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    testing::write_file(folder / name, text);
  };
  put("jax_cuda12_plugin-0.4.dist-info/entry_points.txt",
      "[console_scripts]\nrun = other.package\n[jax_plugins]\nxla_cuda12 = "
      "jax_plugins.xla_cuda12\n");
  put("jax_plugins/xla_cuda12/xla_cuda_plugin.so");
  put("jax_plugins/xla_cuda12/libother.so");
  put("named-1.dist-info/entry_points.txt", "[xla_plugins]\r\nnamed = deep.named:register\r\n");
  put("deep/named/pjrt_plugin_named.so");
  put("other/package/plugin.so");
  put("xla_plugins/cpu/pjrt_cpu.so");
  put("libtpu/libtpu.so");
  put("libtpu/__init__.py");

  std::vector<std::string> names;
  for (const PluginPlace& place : find_plugins({"/no/such/folder", folder.path().string()}))
    names.push_back(place.name + " " + std::filesystem::path(place.file).filename().string());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("xla_cuda12 xla_cuda_plugin.so",
                                                     "named pjrt_plugin_named.so",
                                                     "cpu pjrt_cpu.so", "libtpu libtpu.so"));
}

#ifdef MILLRACE_FAKE_PLUGIN
std::string fault_of(const char* mode, ErrorCode code) {
  ::setenv("FAKE_PLUGIN", mode, 1);
  std::string message = "none";
  try {
    const Plugin plugin(MILLRACE_FAKE_PLUGIN);
    const Client client(plugin);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << mode;
    message = error.message();
  }
  ::unsetenv("FAKE_PLUGIN");
  return message;
}

TEST(Plugins, AreRefusedIfTheyAreNone) {
  EXPECT_THROW(Plugin("/no/such/plugin.so"), Error);
  const testing::TempDir folder;
  testing::write_file(folder / "text.so", "text");
  try {
    const Plugin plugin(folder / "text.so");
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("not a library that can be loaded"));
  }
  EXPECT_THAT(fault_of("no_table", ErrorCode::kInvalidArgument), HasSubstr("no PJRT plugin"));
}

TEST(Plugins, OfAnotherInterfaceAreRefused) {
  EXPECT_THAT(fault_of("version", ErrorCode::kUnsupported),
              HasSubstr("the plugin's interface is 9."));
  EXPECT_THAT(fault_of("short", ErrorCode::kUnsupported), HasSubstr("has no Client_Compile"));
}

TEST(Plugins, ThatFailToStartSayWhy) {
  EXPECT_THAT(fault_of("fails", ErrorCode::kExhausted),
              HasSubstr("the plugin failed to start: out of memory: 17 GiB are needed"));
}

TEST(Plugins, MayHaveNoDevices) {
  const Plugin plugin(MILLRACE_FAKE_PLUGIN);
  const Client client(plugin);
  EXPECT_EQ(client.platform(), "fake");
  EXPECT_TRUE(client.devices().empty());
  EXPECT_THROW(client.compile("module {}"), Error);
}

#endif

#ifdef MILLRACE_CPU_PLUGIN
// XLA's plugin for the CPU, with two devices.
class CpuPlugin : public ::testing::Test {
 protected:
  CpuPlugin() : plugin_(MILLRACE_CPU_PLUGIN), client_(plugin_, {.cpu_devices = 2}) {}

  Buffer copy_in(std::size_t device, std::array<float, 4> values) const {
    const decode::ArraySpec spec{.dtype = decode::DType::kFloat32, .shape = {2, 2}};
    return client_.copy_in(device, {.spec = spec, .data = std::as_bytes(std::span(values))});
  }
  static std::array<float, 4> values_of(const Buffer& buffer) {
    std::array<float, 4> values{};
    buffer.read(std::as_writable_bytes(std::span(values)));
    return values;
  }

  Plugin plugin_;
  Client client_;
};

// The sum over both replicas of twice an array, and the array itself.
constexpr const char* kSum = R"(
module {
  func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
    %two = stablehlo.add %x, %x : tensor<2x2xf32>
    %sum = "stablehlo.all_reduce"(%two) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %sum, %x : tensor<2x2xf32>, tensor<2x2xf32>
  }
})";

TEST_F(CpuPlugin, RunsAProgramOnTwoDevices) {
  ASSERT_EQ(client_.devices().size(), 2U);
  EXPECT_EQ(client_.platform(), "cpu");
  const Program program = client_.compile(kSum, {.replicas = 2});
  ASSERT_EQ(program.num_results(), 2U);
  const Buffer first = copy_in(0, {1, 2, 3, 4});
  const Buffer second = copy_in(1, {10, 20, 30, 40});
  for (int run = 0; run < 3; ++run) {
    const auto results = program.run({{&first}, {&second}});
    ASSERT_EQ(results.size(), 2U);
    const std::array<float, 4> sum{22, 44, 66, 88};
    EXPECT_EQ(values_of(results[0][0]), sum);
    EXPECT_EQ(values_of(results[1][0]), sum);
    const std::array<float, 4> own{10, 20, 30, 40};
    EXPECT_EQ(values_of(results[1][1]), own);
  }
}

TEST_F(CpuPlugin, ConsumesWhatAProgramDonates) {
  const Program program = client_.compile(R"(
module {
  func.func @main(%x: tensor<2x2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2x2xf32> {
    %y = stablehlo.add %x, %x : tensor<2x2xf32>
    return %y : tensor<2x2xf32>
  }
})");
  Buffer x = copy_in(0, {1, 2, 3, 4});
  for (int run = 0; run < 3; ++run) {
    auto results = program.run({{&x}});
    EXPECT_THROW(values_of(x), Error);
    x = std::move(results[0][0]);
  }
  const std::array<float, 4> eight_times{8, 16, 24, 32};
  EXPECT_EQ(values_of(x), eight_times);
}

TEST_F(CpuPlugin, RunsAPortableProgramOnAnyDevice) {
  const Program program = client_.compile(R"(
module {
  func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %y = stablehlo.add %x, %x : tensor<2x2xf32>
    return %y : tensor<2x2xf32>
  }
})",
                                          {.portable = true});
  const std::array<float, 4> doubled{2, 4, 6, 8};
  for (const std::size_t device : {1U, 0U}) {
    const Buffer x = copy_in(device, {1, 2, 3, 4});
    EXPECT_EQ(values_of(program.run_on(device, {&x}).at(0)), doubled);
  }
}

TEST_F(CpuPlugin, SaysWhatIsWrongWithAProgram) {
  try {
    client_.compile("module { func.func @main() { nonsense } }");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("a program's compilation: "));
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
  }
  EXPECT_THROW(client_.compile(kSum, {.replicas = 3}), Error);
}
#endif

}  // namespace
}  // namespace millrace::device::pjrt
