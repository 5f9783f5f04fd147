// Where AWS's own tools find credentials, and the settings of their profile.
//
// Order: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_WEB_IDENTITY_TOKEN_FILE with
// AWS_ROLE_ARN; the profile (AWS_PROFILE, else "default") in ~/.aws/credentials and ~/.aws/config,
// which may name a role and a token file; the container's endpoint; the instance's metadata service
// (IMDSv2).
//
// Source: "Standardized credential providers" (AWS SDKs and Tools Reference Guide).
//
// Threads: every function may be called from any thread.
#pragma once

#include <map>
#include <stop_token>
#include <string>

#include "io/detail/files/environment.h"
#include "io/detail/http/http_exchange.h"
#include "io/detail/http/renewed.h"

namespace millrace::io::detail {

/// No access key: requests are anonymous.
struct AwsKeys {
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};
};

/// The profile's settings from both files, "region" among them; empty if there is no such file.
/// Throws: InvalidArgument if AWS_PROFILE names a profile that neither file has.
std::map<std::string, std::string> aws_profile(const Environment& environment);

/// The first credentials found; none at all are anonymous ones. Throws: NotFound, Io, Corrupt, and
/// Unsupported for a profile whose credentials come from a program or by single sign-on.
Renewed<AwsKeys>::Fetched find_aws_keys(HttpClient& client, const Environment& environment,
                                        const std::stop_token& stop);

}  // namespace millrace::io::detail
