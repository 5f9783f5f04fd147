// ObjectStoreOptions: endpoints and credentials for s3://, gs:// and hf:// urls.
//
// What is not given here is looked for as the stores' own tools do: S3 in the environment, the
// profile's files, a web identity's token file, the container's and the instance's endpoints;
// Google Cloud Storage in GOOGLE_APPLICATION_CREDENTIALS, gcloud's file and the instance's
// metadata; a hub in HF_TOKEN and its file. It is fetched once for all readers of an opener, and
// again before it expires.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace millrace::io {

/// Without an access key, or a token, given or found, requests are anonymous: enough for public
/// buckets.
struct ObjectStoreOptions {
  struct S3 {
    std::string access_key_id = {};
    std::string secret_access_key = {};
    std::string session_token = {};
    /// Empty: the profile's, else us-east-1.
    std::string region = {};
    /// "http://localhost:9000" for a self-hosted store, with the bucket in the path. Empty: AWS.
    std::string endpoint = {};
  } s3 = {};

  struct Gcs {
    std::string access_token = {};
    std::string endpoint = "https://storage.googleapis.com";
  } gcs = {};

  struct Hub {
    std::string token = {};
    std::string endpoint = "https://huggingface.co";
  } hub = {};

  /// Looks up a variable when credentials are needed. Empty: nothing is looked for.
  std::function<std::optional<std::string>(const std::string& name)> environment = {};

  /// Endpoints, regions and tokens from the variables that the stores' own tools read (AWS_REGION,
  /// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; GOOGLE_OAUTH_ACCESS_TOKEN,
  /// CLOUDSDK_AUTH_ACCESS_TOKEN, STORAGE_EMULATOR_HOST; HF_TOKEN, HF_ENDPOINT); credentials are
  /// looked for in the process's environment. Opens nothing.
  static ObjectStoreOptions from_environment();
};

}  // namespace millrace::io
