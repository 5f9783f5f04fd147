#include "trainer/ops/detail/onednn.h"

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <string>

#include "io/base/error.h"
#include "trainer/ops/detail/onednn_faults.h"
#include "trainer/ops/detail/primitives.h"
#include "trainer/ops/detail/work.h"

namespace millrace::trainer::ops {

void throw_onednn(dnnl_status_t status, const std::string& what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw Error(ErrorCode::kUnsupported, "oneDNN: " + what + ": status " + std::to_string(status));
}

// oneDNN does not notice when it gets no memory for the code that it generates, and writes it to
// address 0.
void check_memory_for_code() {
  constexpr std::size_t kBytes = std::size_t{64} << 20U;  // one op's takes a few MiB
  void* const room = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw Error(ErrorCode::kExhausted,
                "less than 64 MiB of memory are left to compile the model: raise the limit "
                "(ulimit -v, a container's), or use fewer devices or threads");
  ::munmap(room, kBytes);
}

Call::Call(const dnnl::primitive& primitive,
           std::initializer_list<std::pair<int, dnnl::memory>> arguments)
    : primitive_(primitive) {
  for (const auto& [argument, memory] : arguments) {
    if (!memory) continue;
    memories_.push_back(memory);
    arguments_.push_back({argument, memory.get()});
    if (argument != DNNL_ARG_SCRATCHPAD) bytes_ += bytes_of(memory);
  }
}

void Call::run(const Context& context) const {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), context.stream.get(),
                             static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) throw_onednn(status, "a layer cannot be computed");
}

std::string Call::implementation() const { return implementation_of(primitive_); }

Call reorder_call(const dnnl::memory& from, const dnnl::memory& to) {
  return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

}  // namespace millrace::trainer::ops
