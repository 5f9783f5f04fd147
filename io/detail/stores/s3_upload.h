// Multipart uploads of S3.
//
// Every part is signed with the SHA-256 of its content, which the store compares with what arrived.
// The object carries the upload's own number as metadata, so that a completion whose answer was
// lost is recognised.
//
// Source: "Uploading and copying objects using multipart upload" (Amazon S3 User Guide).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "io/byte_sink.h"
#include "io/detail/stores/parted_sink.h"

namespace millrace::io::detail {

/// The object's url with a query, signed.
using S3TargetOf = std::function<HttpTarget(const std::map<std::string, std::string>& query)>;

/// Throws: InvalidArgument if the object exists and may not be replaced; NotFound, Io, Cancelled.
std::unique_ptr<PartedUpload> begin_s3_upload(std::shared_ptr<HttpClient> client,
                                              const S3TargetOf& target_of,
                                              const FileSinkOptions& options,
                                              const std::stop_token& stop);

}  // namespace millrace::io::detail
