// A ByteSink that uploads an object in parts, from a bounded number of buffers in memory.
//
// The store makes the object visible when the last step says so, whole or not at all; a sink that
// is not finished, or fails, tells the store to forget the parts. Each part is sent again alone.
//
// Buffers: (PartedUpload::parallel() + 1) * kPartBytes. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "io/byte_sink.h"
#include "io/bytes.h"
#include "io/detail/http/http_call.h"

namespace millrace::io::detail {

/// 10,000 parts, the most that S3 takes, hold 160 GB; Google's parts are multiples of 256 KiB.
inline constexpr std::size_t kPartBytes = std::size_t{16} << 20;

struct ObjectPart {
  /// From 0.
  std::uint64_t number = 0;
  /// Of its first byte in the object.
  std::uint64_t offset = 0;
  Bytes content = {};
  bool last = false;
};

/// How one store takes one object in parts. Threads: one at a time.
class PartedUpload {
 public:
  struct Request {
    HttpTarget target = {};
    HttpCall call = {};
  };

  virtual ~PartedUpload() = default;

  /// The printable url.
  virtual const std::string& name() const = 0;
  /// Maximum number of parts on their way at once.
  virtual std::size_t parallel() const = 0;
  /// Before the first part. Throws: NotFound, Io, Corrupt, Cancelled.
  virtual void begin(const std::stop_token& stop) = 0;
  /// What sends a part; called again for each try. Throws: Unsupported (too many parts).
  virtual Request request(const ObjectPart& part) = 0;
  /// Takes the store's answer; the fault if it has not got the part.
  virtual std::optional<HttpFault> accept(const ObjectPart& part, const HttpAnswer& answer) = 0;
  /// Makes the object appear, after all parts were accepted. Throws: as begin(); InvalidArgument if
  /// the object exists and may not be replaced.
  virtual void complete(const std::stop_token& stop) = 0;
  /// Sends a small object at once; false: it is sent as one part. Throws: as complete().
  virtual bool put(const Bytes& content, const std::stop_token& stop) = 0;
  /// The store forgets the parts, if begin() was called. Never throws.
  virtual void abort() = 0;
};

std::unique_ptr<ByteSink> open_parted_sink(std::shared_ptr<HttpClient> client,
                                           std::unique_ptr<PartedUpload> upload,
                                           const std::stop_token& stop);

/// Thrown when an object exists that may not be replaced.
[[noreturn]] void refuse_existing_object(const std::string& name);

}  // namespace millrace::io::detail
