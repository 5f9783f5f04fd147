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
  EXPECT_THAT(fake_devices("writes", {}), HasSubstr("fake: no devices; interface"));
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
  const ProcessResult failed = millrace({"devices", "--plugin", MILLRACE_FAKE_PLUGIN},
                                        {.environment = {{"FAKE_PLUGIN", "fails"}}});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("17 GiB are needed"));
  EXPECT_THAT(alone.out, HasSubstr("cpu: "));
}

ProcessResult fake_run(const std::string& mode) {
  return millrace({"train", "--fake-data", "64", "--model", "lenet", "--classes", "10", "--devices",
                   "fake", "--plugin", MILLRACE_FAKE_PLUGIN, "--plugin-timeout", "3"},
                  {.environment = {{"FAKE_PLUGIN", mode}}});
}

TEST(DeviceRun, SaysWhatKeepsAPluginFromStarting) {
  EXPECT_THAT(fake_run("").err, HasSubstr("the plugin for fake has no devices here"));
  EXPECT_THAT(fake_run("fails").err, HasSubstr("17 GiB are needed"));
  EXPECT_THAT(fake_run("no_table").err, HasSubstr("no PJRT plugin: it has no GetPjrtApi"));
  const ProcessResult stuck = fake_run("stuck");
  EXPECT_EQ(stuck.status, 1);
  EXPECT_THAT(stuck.err, HasSubstr("to start its devices"));
  EXPECT_THAT(stuck.err, HasSubstr("has not started its devices within 3 s (--plugin-timeout)"));
}

TEST(DeviceRun, RefusesDevicesThatThereAreNot) {
  const auto fault_of = [](const std::string& devices) {
    const ProcessResult result = millrace({"train", "--fake-data", "64", "--devices", devices});
    EXPECT_EQ(result.status, 2) << devices;
    return result.err;
  };
  EXPECT_THAT(fault_of("cudo"), HasSubstr("there are tpu, cuda, rocm, oneapi, xla-cpu; did you "
                                          "mean cuda?"));
  EXPECT_THAT(fault_of("cuda:0"), HasSubstr("'0' is not a number from 1 to 1023"));
  EXPECT_THAT(fault_of("cuda:"), HasSubstr("'' is not a number from 1"));
  EXPECT_THAT(fault_of("cuda:[0"), HasSubstr("a list ends with ]"));
  EXPECT_THAT(fault_of("cuda:[1,1]"), HasSubstr("device 1 is listed twice"));
}

TEST(DeviceRun, CoresAreNotAskedForWhatOnlyAPluginCan) {
  const ProcessResult result =
      millrace({"train", "--fake-data", "8", "--model", "lenet", "--plugin-network", "yes"});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--plugin-network yes: --devices 1 are the CPU's cores"));
}

// Trained here, continued on the CPU's cores, evaluated and predicted on both.
TEST(DeviceRun, TrainsAndGoesOnWithTheCpusCores) {
  const TempDir dir;
  const std::string shards = make_set(dir, 64, 16);
  const auto run = [&](std::vector<std::string> words, const std::string& devices) {
    for (const std::string& word :
         {std::string("--devices"), devices, std::string("--precision"), std::string("fp32"),
          std::string("--plugin"), std::string(MILLRACE_CPU_PLUGIN)})
      words.push_back(word);
    const ProcessResult result = millrace(words, {.environment = {{"XDG_CACHE_HOME", dir / "c"}}});
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  };
  const auto train = [&](const std::string& folder, const std::string& epochs,
                         const std::string& devices) {
    return run({"train", shards, "--model", "lenet", "--channels", "3", "--batch-size", "8",
                "--epochs", epochs, "--schedule", "constant", "--run-dir", dir / folder, "--resume",
                "auto", "--log-steps", "1"},
               devices);
  };
  const ProcessResult first = train("a", "1", "xla-cpu:2");
  EXPECT_THAT(first.err, HasSubstr("Device=xla-cpu:0/0"));
  EXPECT_THAT(first.err, HasSubstr(" + land "));
  EXPECT_THAT(first.err, HasSubstr(" + device "));
  train("a", "2", "2");
  train("b", "2", "2");
  const auto loss_of = [&](const std::string& folder, const std::string& devices) {
    const auto lines =
        json_lines(run({"eval", shards, "--checkpoint", dir / folder, "--json"}, devices).out);
    return double{lines.at(0).at("val_loss")};
  };
  const double loss = loss_of("a", "xla-cpu:2");
  EXPECT_NEAR(loss, loss_of("a", "2"), 1e-4);
  EXPECT_NEAR(loss, loss_of("b", "2"), 1e-3);
  const auto rows = [&](const std::string& devices) {
    return json_lines(run({"predict", shards, "--checkpoint", dir / "a", "--json"}, devices).out);
  };
  const auto here = rows("xla-cpu:1");
  const auto there = rows("1");
  ASSERT_EQ(there.size(), 64U);
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i]["key"], there[i]["key"]);
}

/// A program's words before millrace's own: none, or an mpirun of two processes.
using Launcher = std::vector<std::string>;

class ConnectedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run({"--version"}, kTwo).status != 0) GTEST_SKIP() << "mpirun starts nothing";
  }

  /// `devices`: the options that choose them.
  ProcessResult train(const std::string& folder, const Launcher& launcher,
                      const std::vector<std::string>& devices) {
    std::vector<std::string> words = {"train",      shards_, "--model",      "lenet",
                                      "--channels", "3",     "--batch-size", "8",
                                      "--epochs",   "1",     "--run-dir",    dir_ / folder};
    words.insert(words.end(), devices.begin(), devices.end());
    return run(words, launcher);
  }
  std::string weights(const std::string& folder) const {
    return read_file(dir_ / (folder + "/checkpoints/last/model.safetensors"));
  }

  const Launcher kTwo = {"mpirun", "--oversubscribe", "-np", "2"};
  const std::vector<std::string> kConnected = {"--devices", "fake:1", "--plugin",
                                               MILLRACE_FAKE_PLUGIN};

 private:
  // XLA compiles in a third of the time without MLIR's emitters of fusions.
  ProcessResult run(const std::vector<std::string>& words, Launcher all) {
    all.push_back(MILLRACE_PROGRAM);
    all.insert(all.end(), words.begin(), words.end());
    return run_process(all, {.environment = {{"XDG_CACHE_HOME", dir_ / "cache"},
                                             {"XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false"},
                                             {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                             {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                             {"FAKE_PLUGIN", "network"},
                                             {"FAKE_PLUGIN_REAL", MILLRACE_CPU_PLUGIN}}});
  }

  TempDir dir_;
  std::string shards_ = make_set(dir_, 60, 15);
};

// Sixty samples in batches of eight: the last batches are padded.
TEST_F(ConnectedRun, IsOneProgramOnTheDevicesOfAllProcesses) {
  std::vector<std::string> devices = kConnected;
  devices.insert(devices.end(), {"--plugin-network", "yes"});
  const ProcessResult two = train("two", kTwo, devices);
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_THAT(two.err, HasSubstr("the plugin connects the devices of 2 processes"));
  const ProcessResult one =
      train("one", {}, {"--devices", "xla-cpu:2", "--plugin", MILLRACE_CPU_PLUGIN});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(weights("two"), weights("one"));
}

TEST_F(ConnectedRun, IsRefusedWhereThePluginConnectsNothing) {
  const ProcessResult result =
      train("two", kTwo,
            {"--devices", "xla-cpu:1", "--plugin", MILLRACE_CPU_PLUGIN, "--plugin-network", "yes"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("the plugin has not connected the processes' devices"));
  const ProcessResult alone = train("one", kTwo, kConnected);
  EXPECT_NE(alone.status, 0);
  EXPECT_THAT(alone.err, HasSubstr("no other processes were named"));
}

// Twice an array, summed over four replicas.
constexpr const char* kStep = R"(
module {
  func.func public @main(%x: tensor<128x256xf32>, %w: tensor<256x256xf32>) -> tensor<128x256xf32> {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x256xf32>, tensor<256x256xf32>) -> tensor<128x256xf32>
    return %y : tensor<128x256xf32>
  }
})";

nlohmann::json plan_for(const std::string& device, const std::string& plugin) {
  // The packages lie beside XLA's plugin for the CPU: .../xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so
  const std::filesystem::path packages =
      std::filesystem::path(MILLRACE_CPU_PLUGIN).parent_path().parent_path().parent_path();
  if (!std::filesystem::exists(packages / plugin)) return nullptr;
  const TempDir dir;
  write_file(dir / "step.mlir", kStep);
  const ProcessResult result =
      millrace({"plan", "--device", device, "--program", dir / "step.mlir", "--plugin-path",
                packages.string(), "--json", "--timeout", "100"});
  EXPECT_EQ(result.status, 0) << result.err;
  return json_lines(result.out).at(0);
}

TEST(DevicePlan, CompilesForATpuThatIsNotThere) {
  const auto plan = plan_for("v5e:2x2", "libtpu/libtpu.so");
  if (plan.is_null()) GTEST_SKIP() << "libtpu is not installed";
  EXPECT_EQ(plan["devices"], 4);
  EXPECT_THAT(std::string(plan["kind"]), HasSubstr("TPU v5"));
  EXPECT_EQ(plan["argument_bytes"], 4 * (128 * 256 + 256 * 256));
  EXPECT_GE(plan["flops"], 2.0 * 128 * 256 * 256);
  EXPECT_TRUE(plan["fits"]);
}

/// The run's own step, and from the second time on without the compiler.
TEST(DevicePlan, CompilesTheStepOfARun) {
  const std::filesystem::path packages =
      std::filesystem::path(MILLRACE_CPU_PLUGIN).parent_path().parent_path().parent_path();
  if (!std::filesystem::exists(packages / "jax_plugins/xla_cuda12/xla_cuda_plugin.so"))
    GTEST_SKIP() << "jax-cuda12-pjrt is not installed";
  const TempDir dir;
  const std::map<std::string, std::string> environment = {{"XDG_CACHE_HOME", dir.path()},
                                                          {"TMPDIR", dir.path()}};
  const auto plan = [&](const std::string& more, const std::string& value) {
    const ProcessResult result =
        millrace({"plan", "--device", "h100:2", "--model", "lenet", "--classes", "10",
                  "--batch-size", "8", more, value, "--plugin-path", packages, "--json"},
                 {.environment = environment});
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0);
  };
  const auto first = plan("--optimizer", "sgd(momentum=0)");
  EXPECT_EQ(first["devices"], 2);
  EXPECT_FALSE(first.contains("kept"));
  // Pictures of 28 x 28 come as bytes; 61,706 parameters as float32.
  EXPECT_GE(first["argument_bytes"], 8 * (28 * 28 + 9) + 4 * 61'706);
  const auto again = plan("--optimizer", "sgd(momentum=0)");
  EXPECT_TRUE(again["kept"]);
  EXPECT_EQ(again["compile_s"], first["compile_s"]);
  const auto other = plan("--optimizer", "sgd");
  EXPECT_FALSE(other.contains("kept"));
  EXPECT_GE(other["argument_bytes"].get<double>() - first["argument_bytes"].get<double>(),
            4 * 61'706)
      << "with momentum";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1)
      << "nothing but the kept plans";
}

TEST(DevicePlan, CompilesForAnH100ThatIsNotThere) {
  const auto plan = plan_for("h100", "jax_plugins/xla_cuda12/xla_cuda_plugin.so");
  if (plan.is_null()) GTEST_SKIP() << "jax-cuda12-pjrt is not installed";
  EXPECT_EQ(plan["devices"], 1);
  EXPECT_THAT(std::string(plan["kind"]), HasSubstr("H100"));
  EXPECT_TRUE(plan["fits"]);
}
#endif

TEST(DevicePlan, KnowsItsDevices) {
  const TempDir dir;
  write_file(dir / "step.mlir", "module {}");
  for (const char* device : {"v7:2x2", "v5e", "v5e:0x2", "v5e:2x", "h100:0", "h100:many"}) {
    const ProcessResult result =
        millrace({"plan", "--device", device, "--program", dir / "step.mlir"});
    EXPECT_EQ(result.status, 2) << device;
    EXPECT_THAT(result.err, HasSubstr("there are v4:2x2x1, v5e:2x4"));
  }
  const ProcessResult missing = millrace(
      {"plan", "--device", "v5e:2x2", "--program", dir / "step.mlir", "--plugin-path", dir.path()});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("pip install libtpu"));
}

}  // namespace
}  // namespace millrace::testing
