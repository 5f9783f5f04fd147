// AWS Signature Version 4, sent in the Authorization header.
//
// Source: "Authenticating Requests: Using the Authorization Header" (Amazon S3 API Reference).
#pragma once

#include <string>
#include <vector>

#include "io/object_store_options.h"

namespace millrace::io::detail {

struct AwsRequest {
  std::string method;
  std::string host;
  /// Already percent-encoded.
  std::string path;
  /// "20130524T000000Z"
  std::string time;
  /// SHA-256 of the body in hex, or "UNSIGNED-PAYLOAD".
  std::string payload = "UNSIGNED-PAYLOAD";
};

/// The header lines that sign `request` with the credentials `who`: Authorization and the signed
/// headers except Host.
std::vector<std::string> aws_signature_lines(const AwsRequest& request,
                                             const ObjectStoreOptions::S3& who);

}  // namespace millrace::io::detail
