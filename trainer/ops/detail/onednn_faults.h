// What oneDNN's faults become, and one that it does not notice itself.
//
// Threads: any.
#pragma once

#include <dnnl.h>

#include <string>

namespace millrace::trainer::ops {

/// Throws: std::bad_alloc for dnnl_out_of_memory, Unsupported with `what` for all others.
[[noreturn]] void throw_onednn(dnnl_status_t status, const std::string& what);

/// Before primitives are made, or first run. Throws: Exhausted, if there is too little memory for
/// their code.
void check_memory_for_code();

}  // namespace millrace::trainer::ops
