#include "io/detail/stores/s3_upload.h"

#include <fmt/format.h>

#include <random>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/detail/stores/xml.h"

namespace millrace::io::detail {
namespace {

constexpr std::uint64_t kMostParts = 10'000;
constexpr const char* kOwnNumber = "x-amz-meta-millrace-upload";
// How long a destructor may wait for the store to forget parts.
constexpr Clock::Duration kS3AbortLimit = std::chrono::seconds(2);

std::string sha256(const Bytes& content) {
  Sha256 hash;
  hash.update(content.span());
  return hash.hex();
}

// Unpredictable, so not one of KeyedRng's: two machines that write one object must differ.
std::string new_number() {
  std::random_device device;
  std::string number;
  for (int i = 0; i < 4; ++i) number += std::to_string(device());
  return number;
}

class S3Upload final : public PartedUpload {
 public:
  S3Upload(std::shared_ptr<HttpClient> client, S3TargetOf target_of, const FileSinkOptions& options)
      : client_(std::move(client)),
        target_of_(std::move(target_of)),
        never_(options.replace == Replace::kNever),
        own_number_(new_number()),
        name_(target_of_({}).name) {}

  void refuse_existing(const std::stop_token& stop) {
    if (!never_) return;
    // Without the right to list a bucket, 403 is the answer for what is not there.
    const HttpAnswer answer =
        call(*client_, target_of_({}), {.method = "HEAD", .also = {403, 404}}, stop);
    if (answer.head.status() < 300) refuse_existing_object(name_);
  }

  const std::string& name() const override { return name_; }
  std::size_t parallel() const override { return 3; }

  void begin(const std::stop_token& stop) override {
    const HttpAnswer answer =
        call(*client_, target_of_({{"uploads", ""}}),
             {.method = "POST", .header_lines = {content_type(), own_number_line()}}, stop);
    id_ = parse_xml(answer.body, "the store's answer").text_of("UploadId");
    if (id_.empty())
      throw Error(ErrorCode::kCorrupt, "the store began an upload without an id", {.url = name_});
  }

  Request request(const ObjectPart& part) override {
    if (part.number == kMostParts)
      throw Error(ErrorCode::kUnsupported, "an object of more than 160 GB", {.url = name_});
    return {
        .target = target_of_({{"partNumber", std::to_string(part.number + 1)}, {"uploadId", id_}}),
        .call = {.method = "PUT", .body = part.content, .body_sha256 = sha256(part.content)}};
  }

  std::optional<HttpFault> accept(const ObjectPart& part, const HttpAnswer& answer) override {
    const std::string_view etag = answer.head.field("etag");
    if (etag.empty())
      return HttpFault{.error =
                           Error(ErrorCode::kCorrupt, "the store took a part without an ETag")};
    if (etags_.size() <= part.number) etags_.resize(part.number + 1);
    etags_[part.number] = etag;
    return std::nullopt;
  }

  void complete(const std::stop_token& stop) override {
    std::string list = "<CompleteMultipartUpload>";
    for (std::size_t i = 0; i < etags_.size(); ++i) {
      list.append("<Part><PartNumber>").append(std::to_string(i + 1));
      list.append("</PartNumber><ETag>").append(xml_escaped(etags_[i])).append("</ETag></Part>");
    }
    list += "</CompleteMultipartUpload>";
    send_last({.method = "POST",
               .header_lines = {"Content-Type: application/xml"},
               .body = Bytes::copy_of(list)},
              {{"uploadId", id_}}, stop);
  }

  bool put(const Bytes& content, const std::stop_token& stop) override {
    send_last({.method = "PUT",
               .header_lines = {content_type(), own_number_line()},
               .body = content,
               .body_sha256 = sha256(content)},
              {}, stop);
    return true;
  }

  void abort() override {
    if (id_.empty()) return;
    try {
      call(*client_, target_of_({{"uploadId", id_}}), {.method = "DELETE", .once = kS3AbortLimit},
           {});
    } catch (const std::exception&) {  // the bucket's rule for incomplete uploads removes it
    }
  }

 private:
  static std::string content_type() { return "Content-Type: application/octet-stream"; }
  std::string own_number_line() const { return fmt::format("{}: {}", kOwnNumber, own_number_); }

  // The request that makes the object appear.
  void send_last(HttpCall last, const std::map<std::string, std::string>& query,
                 const std::stop_token& stop) {
    if (never_) last.header_lines.emplace_back("If-None-Match: *");
    last.also = {404, 412};
    constexpr int kTries = 3;
    for (int left = kTries;; --left) {
      const HttpAnswer answer = call(*client_, target_of_(query), last, stop);
      if (answer.head.status() >= 300) return resolve(answer, stop);
      // A completion that fails late is status 200 with an error in its body.
      if (answer.body.find("<Error>") == std::string::npos) return;
      if (left == 1)
        throw Error(ErrorCode::kIo, "the store did not put the object's parts together",
                    {.url = name_});
    }
  }

  // Refused: unless an earlier try, whose answer was lost, succeeded, and it is our object.
  void resolve(const HttpAnswer& refused, const std::stop_token& stop) {
    const HttpAnswer now =
        call(*client_, target_of_({}), {.method = "HEAD", .also = {403, 404}}, stop);
    if (now.head.field(kOwnNumber) == own_number_) return;
    if (refused.head.status() == 412) refuse_existing_object(name_);
    throw Error(ErrorCode::kNotFound, "the store answered with status 404", {.url = name_});
  }

  std::shared_ptr<HttpClient> client_;
  S3TargetOf target_of_;
  const bool never_;
  const std::string own_number_;
  const std::string name_;
  std::string id_;
  std::vector<std::string> etags_;
};

}  // namespace

std::unique_ptr<PartedUpload> begin_s3_upload(std::shared_ptr<HttpClient> client,
                                              const S3TargetOf& target_of,
                                              const FileSinkOptions& options,
                                              const std::stop_token& stop) {
  auto upload = std::make_unique<S3Upload>(std::move(client), target_of, options);
  upload->refuse_existing(stop);
  return upload;
}

}  // namespace millrace::io::detail
