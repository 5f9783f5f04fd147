// AWS Signature Version 4, in a header.
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
  /// Percent-encoded already.
  std::string path;
  /// "20130524T000000Z"
  std::string time;
  /// SHA-256 of the body in hex, or "UNSIGNED-PAYLOAD".
  std::string payload = "UNSIGNED-PAYLOAD";
};

/// The header lines that make `request` one of `who`'s: Authorization and what it covers, but Host.
std::vector<std::string> aws_signature_lines(const AwsRequest& request,
                                             const ObjectStoreOptions::S3& who);

}  // namespace millrace::io::detail
