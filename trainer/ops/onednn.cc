#include "trainer/ops/detail/onednn.h"

namespace millrace::trainer::ops {

Call::Call(const dnnl::primitive& primitive,
           std::initializer_list<std::pair<int, dnnl::memory>> arguments)
    : primitive_(primitive) {
  for (const auto& [argument, memory] : arguments) {
    if (!memory) continue;
    memories_.push_back(memory);
    arguments_.push_back({argument, memory.get()});
  }
}

void Call::run(const Context& context) const {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), context.stream.get(),
                             static_cast<int>(arguments_.size()), arguments_.data()),
      "could not execute a primitive");
}

Call reorder_call(const dnnl::memory& from, const dnnl::memory& to) {
  return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

}  // namespace millrace::trainer::ops
