// AWS Signature Version 4, sent in the Authorization header.
//
// Source: "Authenticating Requests: Using the Authorization Header" (Amazon S3 API Reference).
#pragma once

#include <string>
#include <vector>

#include "io/detail/http/signer.h"
#include "io/detail/stores/aws_credentials.h"

namespace millrace::io::detail {

/// The header lines that sign `request`: Authorization and the signed headers except Host and
/// those of the request. Its query has to be sorted by name; of its header lines, those whose names
/// begin with "x-amz-" are signed. Without a body's hash the payload is unsigned. `time`:
/// "20130524T000000Z".
std::vector<std::string> aws_signature_lines(const UnsignedRequest& request,
                                             const std::string& time, const std::string& region,
                                             const AwsKeys& keys);

}  // namespace millrace::io::detail
