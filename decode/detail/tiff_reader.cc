#include "decode/detail/tiff_reader.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>

namespace millrace::decode::detail {
namespace {

TiffInput& input_of(thandle_t handle) { return *static_cast<TiffInput*>(handle); }

tmsize_t read_tiff(thandle_t handle, void* out, tmsize_t size) {
  TiffInput& input = input_of(handle);
  const std::uint64_t left = input.size - std::min(input.at, input.size);
  const std::uint64_t got = std::min(static_cast<std::uint64_t>(size), left);
  if (got > 0) std::memcpy(out, input.data + input.at, got);
  input.at += got;
  return static_cast<tmsize_t>(got);
}

tmsize_t on_write(thandle_t, void*, tmsize_t) { return 0; }

toff_t on_seek(thandle_t handle, toff_t offset, int whence) {
  TiffInput& input = input_of(handle);
  if (whence == SEEK_SET) input.at = offset;
  if (whence == SEEK_CUR) input.at += offset;
  if (whence == SEEK_END) input.at = input.size + offset;
  return input.at;
}

int on_close(thandle_t) { return 0; }
toff_t on_size(thandle_t handle) { return input_of(handle).size; }

int on_map(thandle_t handle, void** base, toff_t* size) {
  TiffInput& input = input_of(handle);
  *base = const_cast<std::uint8_t*>(input.data);  // NOLINT: libtiff only reads what it maps
  *size = input.size;
  return 1;
}
void on_unmap(thandle_t, void*, toff_t) {}

int on_tiff_error(TIFF*, void* user, const char*, const char* format, va_list values) {
  auto& input = *static_cast<TiffInput*>(user);
  if (!input.failed) std::vsnprintf(input.message.data(), input.message.size(), format, values);
  input.failed = true;
  return 1;
}

// Warnings are of tags that no pixel depends on.
int on_tiff_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

}  // namespace

TiffReader::TiffReader(std::span<const std::byte> data, std::uint64_t most_bytes)
    : input_{.data = reinterpret_cast<const std::uint8_t*>(data.data()), .size = data.size()} {
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (!options) throw std::bad_alloc();
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<tmsize_t>::max());
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(),
                                      static_cast<tmsize_t>(std::min(most_bytes, kMost)));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_tiff_error, &input_);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_tiff_warning, &input_);
  tiff_.reset(TIFFClientOpenExt("image", "r", &input_, read_tiff, on_write, on_seek, on_close,
                                on_size, on_map, on_unmap, options.get()));
  if (!tiff_) fail();
}

void TiffReader::fail() const {
  const std::string said = input_.message.data();
  if (said.starts_with("Out of memory") || said.starts_with("No space")) throw std::bad_alloc();
  throw Error(code_of(said), "TIFF: " + (said.empty() ? "damaged" : said));
}

ErrorCode TiffReader::code_of(const std::string& said) {
  const auto has = [&](const char* words) { return said.find(words) != std::string::npos; };
  if (has("byte limit defined in open options")) return ErrorCode::kExhausted;
  const bool foreign = has("an not handle") || has("Unsupported JPEG") || has("not implemented") ||
                       has("not configured") || has("Improper JPEG data precision");
  return foreign ? ErrorCode::kUnsupported : ErrorCode::kCorrupt;
}

}  // namespace millrace::decode::detail
