// BucketServer: a real object store's server program on a free loopback port, with an empty bucket
// called "bucket": moto's S3, or the gcp-storage-emulator's Google Cloud Storage.
//
//   if (const auto reason = BucketServer::missing(BucketServer::Kind::kS3)) GTEST_SKIP() <<
//   *reason; BucketServer server(BucketServer::Kind::kS3); UrlOpener opener({.object_stores =
//   server.options()}); run_process({...}, {.environment = server.environment()});
//
// It keeps objects in memory, and ends with the test, however that ends. Throws: std::runtime_error
// if it does not start.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

#include "io/detail/files/unique_fd.h"
#include "io/object_store_options.h"

namespace millrace::testing {

class BucketServer {
 public:
  enum class Kind { kS3, kGcs };

  explicit BucketServer(Kind kind);
  ~BucketServer();
  BucketServer(const BucketServer&) = delete;
  BucketServer& operator=(const BucketServer&) = delete;

  /// Why the server cannot be started here; nullopt if it can.
  static std::optional<std::string> missing(Kind kind);

  /// "s3://bucket/NAME" or "gs://bucket/NAME".
  std::string url(const std::string& name = "") const;
  /// "http://127.0.0.1:PORT".
  const std::string& endpoint() const { return endpoint_; }
  millrace::io::ObjectStoreOptions options() const;
  /// The same for a program.
  std::map<std::string, std::string> environment() const;

 private:
  Kind kind_;
  std::string endpoint_;
  pid_t pid_ = -1;
  io::detail::UniqueFd leash_;
};

}  // namespace millrace::testing
