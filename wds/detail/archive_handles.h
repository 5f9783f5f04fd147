// Owners of libarchive's handles.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <memory>

namespace millrace::wds::detail {

struct FreeRead {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
struct FreeWrite {
  void operator()(archive* handle) const { archive_write_free(handle); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

using ReadHandle = std::unique_ptr<archive, FreeRead>;
using WriteHandle = std::unique_ptr<archive, FreeWrite>;
using EntryHandle = std::unique_ptr<archive_entry, FreeEntry>;

}  // namespace millrace::wds::detail
