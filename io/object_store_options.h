// ObjectStoreOptions: endpoints and credentials for s3:// and gs:// urls.
#pragma once

#include <string>

namespace millrace::io {

/// Without an access key, or a token, requests are anonymous: enough for public buckets.
struct ObjectStoreOptions {
  struct S3 {
    std::string access_key_id = {};
    std::string secret_access_key = {};
    std::string session_token = {};
    std::string region = "us-east-1";
    /// "http://localhost:9000" for a self-hosted store, with the bucket in the path. Empty: AWS.
    std::string endpoint = {};
  } s3 = {};

  struct Gcs {
    std::string access_token = {};
    std::string endpoint = "https://storage.googleapis.com";
  } gcs = {};

  /// Reads the variables that the stores' own tools read: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
  /// AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL;
  /// GOOGLE_OAUTH_ACCESS_TOKEN, CLOUDSDK_AUTH_ACCESS_TOKEN, STORAGE_EMULATOR_HOST.
  static ObjectStoreOptions from_environment();
};

}  // namespace millrace::io
