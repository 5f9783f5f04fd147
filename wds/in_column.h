// in_column: faults of a table's values say which column they are of.
//
//   const std::string text = in_column(name, [&] { return text_of(batch.value(column, row)); });
//
// Threads: a free function, callable from any thread.
#pragma once

#include <string>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::wds {

/// Runs `work`; the message of what it throws begins with "column NAME: ". Throws: as `work`.
template <typename Work>
auto in_column(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), "column " + printable(name) + ": " + error.message(), error.where());
  }
}

}  // namespace millrace::wds
