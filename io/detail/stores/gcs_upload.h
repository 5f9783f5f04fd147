// Resumable uploads of Google Cloud Storage.
//
// The last part is sent with the CRC-32C of the whole object, which the store compares with what
// arrived, and so do we with what the store computed.
//
// Source: "Resumable uploads", "Data validation" (Cloud Storage documentation).
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "io/byte_sink.h"
#include "io/detail/stores/parted_sink.h"

namespace millrace::io::detail {

/// The signed target of a path of the store's API, or of an upload's own url.
using GcsTargetOf = std::function<HttpTarget(const std::string& path_or_url)>;

/// Throws: InvalidArgument if the object exists and may not be replaced; NotFound, Io, Cancelled.
std::unique_ptr<PartedUpload> begin_gcs_upload(std::shared_ptr<HttpClient> client,
                                               const GcsTargetOf& target_of,
                                               const std::string& bucket, const std::string& key,
                                               const FileSinkOptions& options,
                                               const std::stop_token& stop);

}  // namespace millrace::io::detail
