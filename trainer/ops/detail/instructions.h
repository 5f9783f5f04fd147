// The instructions that plans may use: those of the processor, or fewer.
//
// MILLRACE_MAX_ISA=avx2 (or sse41, avx512, avx512_bf16, amx) makes a plan what it is on a processor
// without the later ones: oneDNN's kernels, millrace's own, the layout of images and what bf16
// means. So each kind is tested on a machine that has more (tests/trainer/kinds.sh), and the layout
// of a later kind on one that has less, by MILLRACE_IMAGE_LAYOUT (image_layout.h).
//
// Threads: from any.
#pragma once

#include <string_view>

namespace millrace::trainer::ops {

enum class Isa { kSse41, kAvx2, kAvx512, kAvx512Bf16, kAmx };

/// Read once, before the first use of oneDNN. Throws: InvalidArgument for a name that it is not.
Isa usable_isa();
/// "AVX-512 with bf16".
std::string_view isa_name(Isa isa);

}  // namespace millrace::trainer::ops
