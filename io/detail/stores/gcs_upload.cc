#include "io/detail/stores/gcs_upload.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/base64.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/detail/http/url.h"

namespace millrace::io::detail {
namespace {

// How long a destructor may wait for the store to forget parts.
constexpr Clock::Duration kGcsAbortLimit = std::chrono::seconds(2);

// As Google writes it: base64 of four bytes, the highest first.
std::string written(std::uint32_t crc) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>(crc >> shift);
  return base64(bytes);
}

class GcsUpload final : public PartedUpload {
 public:
  GcsUpload(std::shared_ptr<HttpClient> client, GcsTargetOf target_of, const std::string& bucket,
            const std::string& key, const FileSinkOptions& options)
      : client_(std::move(client)),
        target_of_(std::move(target_of)),
        object_("/storage/v1/b/" + bucket + "/o/" + percent_encoded(key)),
        begin_("/upload/storage/v1/b/" + bucket +
               "/o?uploadType=resumable&name=" + percent_encoded(key)),
        never_(options.replace == Replace::kNever),
        name_(target_of_("").name) {
    if (never_) begin_ += "&ifGenerationMatch=0";
  }

  void refuse_existing(const std::stop_token& stop) {
    if (!never_) return;
    const HttpAnswer answer =
        call(*client_, target_of_(object_ + "?fields=generation"), {.also = {403, 404}}, stop);
    if (answer.head.status() < 300) refuse_existing_object(name_);
  }

  const std::string& name() const override { return name_; }
  std::size_t parallel() const override { return 1; }

  void begin(const std::stop_token& stop) override {
    const HttpAnswer answer =
        call(*client_, target_of_(begin_),
             {.method = "POST",
              .header_lines = {"Content-Type: application/json",
                               "X-Upload-Content-Type: application/octet-stream"},
              .body = Bytes::copy_of("{}"),
              .also = {412}},
             stop);
    if (answer.head.status() == 412) refuse_existing_object(name_);
    const std::string session(answer.head.field("location"));
    if (session.empty())
      throw Error(ErrorCode::kCorrupt, "the store began an upload without a url", {.url = name_});
    session_ = resolve_url(target_of_(begin_).url, session);
  }

  // The store ignores bytes that it has already, so a part is sent again whole.
  Request request(const ObjectPart& part) override {
    if (part.offset == checked_) {
      crc_ = crc32c(part.content.span(), crc_);
      checked_ += part.content.size();
    }
    Request request{.target = target_of_(session_),
                    .call = {.method = "PUT",
                             .header_lines = {"Content-Range: " + range_of(part)},
                             .body = part.content,
                             .also = {308, 412}}};
    if (part.last) request.call.header_lines.push_back("x-goog-hash: crc32c=" + written(crc_));
    return request;
  }

  std::optional<HttpFault> accept(const ObjectPart& part, const HttpAnswer& answer) override {
    const long status = answer.head.status();
    if (status == 412) refuse_existing_object(name_);
    const std::uint64_t end = part.offset + part.content.size();
    if (part.last && status < 300) return check(answer);
    const std::string has = "bytes=0-" + std::to_string(end - 1);
    if (!part.last && status == 308 && answer.head.field("range") == has) return std::nullopt;
    return HttpFault{.error = Error(ErrorCode::kIo, "the store has not got all of a part")};
  }

  void complete(const std::stop_token& stop) override {
    if (!damaged_) return;
    call(*client_, target_of_(object_ + "?ifGenerationMatch=" + generation_),
         {.method = "DELETE", .also = {404, 412}}, stop);
    throw Error(ErrorCode::kCorrupt, "the store got other bytes than were sent (CRC-32C)",
                {.url = name_});
  }

  bool put(const Bytes&, const std::stop_token&) override { return false; }

  void abort() override {
    if (session_.empty()) return;
    try {
      call(*client_, target_of_(session_),
           {.method = "DELETE", .also = {404, 410, 499}, .once = kGcsAbortLimit}, {});
    } catch (const std::exception&) {  // the store forgets it after a week
    }
  }

 private:
  static std::string range_of(const ObjectPart& part) {
    const std::uint64_t end = part.offset + part.content.size();
    const std::string total = part.last ? std::to_string(end) : "*";
    if (part.content.empty()) return "bytes */" + total;
    return "bytes " + std::to_string(part.offset) + "-" + std::to_string(end - 1) + "/" + total;
  }

  std::optional<HttpFault> check(const HttpAnswer& answer) {
    try {
      const auto object = parse_json<nlohmann::json>(answer.body, "the store's answer");
      damaged_ = object.at("crc32c").get<std::string>() != written(crc_);
      generation_ = object.value("generation", "0");
      return std::nullopt;
    } catch (const nlohmann::json::exception&) {
      return HttpFault{.error = Error(ErrorCode::kCorrupt,
                                      "the store took an object without saying "
                                      "what it got"),
                       .retry = false};
    }
  }

  std::shared_ptr<HttpClient> client_;
  GcsTargetOf target_of_;
  std::string object_;
  std::string begin_;
  const bool never_;
  const std::string name_;
  std::string session_;
  std::uint64_t checked_ = 0;  // bytes that crc_ covers
  std::uint32_t crc_ = 0;
  bool damaged_ = false;
  std::string generation_;
};

}  // namespace

std::unique_ptr<PartedUpload> begin_gcs_upload(std::shared_ptr<HttpClient> client,
                                               const GcsTargetOf& target_of,
                                               const std::string& bucket, const std::string& key,
                                               const FileSinkOptions& options,
                                               const std::stop_token& stop) {
  auto upload = std::make_unique<GcsUpload>(std::move(client), target_of, bucket, key, options);
  upload->refuse_existing(stop);
  return upload;
}

}  // namespace millrace::io::detail
