#include "trainer/ops/detail/instructions.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <string>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::trainer::ops {
namespace {

struct Kind {
  std::string_view word;  // of MILLRACE_MAX_ISA
  std::string_view name;
  dnnl::cpu_isa isa;
};

// In the order of Isa.
constexpr std::array<Kind, 5> kKinds = {{
    {"sse41", "SSE4.1 without bf16", dnnl::cpu_isa::sse41},
    {"avx2", "AVX2 without bf16", dnnl::cpu_isa::avx2},
    {"avx512", "AVX-512 without bf16", dnnl::cpu_isa::avx512_core_vnni},
    {"avx512_bf16", "AVX-512 with bf16", dnnl::cpu_isa::avx512_core_bf16},
    {"amx", "AVX-512 with bf16 and AMX", dnnl::cpu_isa::avx512_core_amx},
}};

void limit_to(std::string_view word) {
  const auto found = std::ranges::find(kKinds, word, &Kind::word);
  if (found == kKinds.end())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("MILLRACE_MAX_ISA={}: there are sse41, avx2, avx512, avx512_bf16, amx",
                            printable(std::string(word))));
  dnnl::set_max_cpu_isa(found->isa);
  constexpr std::int64_t kWide = HWY_AVX3 | HWY_AVX3_DL;
  const std::int64_t later = found->isa == dnnl::cpu_isa::sse41  ? kWide | HWY_AVX2
                             : found->isa == dnnl::cpu_isa::avx2 ? kWide
                                                                 : 0;
  if (later != 0) hwy::DisableTargets(later);
}

Isa find_usable() {
  if (const char* word = std::getenv("MILLRACE_MAX_ISA")) limit_to(word);
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0)
    return isa >= dnnl::cpu_isa::avx2 ? Isa::kAvx2 : Isa::kSse41;
  if (isa >= dnnl::cpu_isa::avx512_core_amx) return Isa::kAmx;
  if (isa >= dnnl::cpu_isa::avx512_core_bf16) return Isa::kAvx512Bf16;
  if (isa >= dnnl::cpu_isa::avx512_core) return Isa::kAvx512;
  return isa >= dnnl::cpu_isa::avx2 ? Isa::kAvx2 : Isa::kSse41;
}

}  // namespace

Isa usable_isa() {
  static const Isa isa = find_usable();
  return isa;
}

std::string_view isa_name(Isa isa) { return kKinds[static_cast<std::size_t>(isa)].name; }

}  // namespace millrace::trainer::ops
