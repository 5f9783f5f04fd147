#include "tools/plugins/accelerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

constexpr double kTera = 1e12;
constexpr double kGigabyte = 1e9;
constexpr double kGiB = 1 << 30;

struct Figures {
  std::string_view name;
  std::string_view example;
  double teraflops;
  double gigabytes_per_s;
  double memory;  // bytes
};

// Sources: Google Cloud's pages "TPU v4", "TPU v5e", "TPU v5p", "TPU v6e".
constexpr std::array<Figures, 4> kTpus = {{{"v4", "v4:2x2x1", 275, 1228, 32 * kGiB},
                                           {"v5e", "v5e:2x4", 197, 819, 16 * kGiB},
                                           {"v5p", "v5p:2x2x1", 459, 2765, 95 * kGiB},
                                           {"v6e", "v6e:2x4", 918, 1640, 32 * kGiB}}};

// A GPU as XLA's compiler is told of it.
struct Gpu {
  Figures figures;
  std::string_view target;  // xla.GpuTargetConfigProto
};

// Sources: NVIDIA's data sheets "H100 Tensor Core GPU" (SXM), "A100 80GB" (SXM), and CUDA's
// programming guide, table of compute capabilities.
constexpr std::array<Gpu, 2> kGpus = {
    {{{"h100", "h100", 989, 3352, 84.9 * kGigabyte},
      "gpu_device_info { threads_per_block_limit: 1024 threads_per_warp: 32 "
      "shared_memory_per_block: 49152 shared_memory_per_core: 233472 threads_per_core_limit: 2048 "
      "core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 "
      "block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800 "
      "clock_rate_ghz: 1.98 device_memory_size: 84942979072 shared_memory_per_block_optin: 232448 "
      "cuda_compute_capability { major: 9 } registers_per_core_limit: 65536 "
      "registers_per_block_limit: 65536 } platform_name: \"CUDA\" "
      "dnn_version_info { major: 9 minor: 10 patch: 0 } "
      "device_description_str: \"NVIDIA H100 80GB HBM3\""},
     {{"a100", "a100:8", 312, 2039, 84.9 * kGigabyte},
      "gpu_device_info { threads_per_block_limit: 1024 threads_per_warp: 32 "
      "shared_memory_per_block: 49152 shared_memory_per_core: 167936 threads_per_core_limit: 2048 "
      "core_count: 108 fpus_per_core: 64 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 "
      "block_dim_limit_z: 65535 memory_bandwidth: 2039000000000 l2_cache_size: 41943040 "
      "clock_rate_ghz: 1.41 device_memory_size: 84942979072 shared_memory_per_block_optin: 166912 "
      "cuda_compute_capability { major: 8 } registers_per_core_limit: 65536 "
      "registers_per_block_limit: 65536 } platform_name: \"CUDA\" "
      "dnn_version_info { major: 9 minor: 10 patch: 0 } "
      "device_description_str: \"NVIDIA A100-SXM4-80GB\""}}};

// 1 to 4096; 0 for anything else.
int count_of_word(std::string_view text) {
  constexpr std::int64_t kMost = 4096;
  const std::int64_t value = number_or_zero(text);
  return value >= 1 && value <= kMost ? static_cast<int>(value) : 0;
}

// The product of "2x4" or "2x2x1"; 0 for anything else.
int volume_of(std::string_view shape) {
  int volume = 1;
  for (;;) {
    const std::size_t end = shape.find('x');
    const int side = count_of_word(shape.substr(0, end));
    if (side == 0 || volume > 4096 / side) return 0;
    volume *= side;
    if (end == std::string_view::npos) return volume;
    shape.remove_prefix(end + 1);
  }
}

void set_figures(Accelerator& accelerator, const Figures& figures) {
  accelerator.flops_per_s = figures.teraflops * kTera;
  accelerator.bytes_per_s = figures.gigabytes_per_s * kGigabyte;
  accelerator.memory_bytes = figures.memory;
}

[[noreturn]] void refuse_device(const std::string& word) {
  std::string names;
  const auto add = [&names](const Figures& figures) {
    names += (names.empty() ? "" : ", ") + std::string(figures.example);
  };
  std::ranges::for_each(kTpus, add);
  std::ranges::for_each(kGpus, add, &Gpu::figures);
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--device {}: there are {}; a TPU's slice may have any shape, GPUs any "
                          "number",
                          printable(word), names));
}

}  // namespace

Accelerator accelerator_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::string name = word.substr(0, colon);
  const std::string shape = colon == std::string::npos ? "" : word.substr(colon + 1);
  Accelerator accelerator;
  if (const auto* const tpu = std::ranges::find(kTpus, name, &Figures::name); tpu != kTpus.end()) {
    set_figures(accelerator, *tpu);
    accelerator.devices = volume_of(shape);
    if (accelerator.devices == 0) refuse_device(word);
    accelerator.plugin = "libtpu";
    accelerator.pip = "libtpu";
    accelerator.topology.name = word;
    return accelerator;
  }
  const auto* const gpu =
      std::ranges::find(kGpus, name, [](const Gpu& each) { return each.figures.name; });
  accelerator.devices = colon == std::string::npos ? 1 : count_of_word(shape);
  if (gpu == kGpus.end() || accelerator.devices == 0) refuse_device(word);
  set_figures(accelerator, gpu->figures);
  accelerator.plugin = "cuda";
  accelerator.pip = "jax-cuda12-pjrt";
  const std::string places = fmt::format("1x1x{}", accelerator.devices);
  accelerator.topology = {
      .name = places,
      .settings = {{"target_config", std::string(gpu->target)}, {"topology", places}}};
  // Tuning would run kernels on a device.
  accelerator.compile.flags = {{"xla_gpu_autotune_level", 0}};
  return accelerator;
}

}  // namespace millrace::tools
