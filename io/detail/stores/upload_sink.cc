#include "io/detail/stores/upload_sink.h"

#include <fcntl.h>
#include <stdlib.h>  // for mkostemp
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "io/base/check.h"
#include "io/detail/files/unique_fd.h"
#include "io/detail/http/http_call.h"
#include "io/detail/stores/parted_sink.h"

namespace millrace::io::detail {
namespace {

// An unlinked file: it disappears with its descriptor, however the process ends.
UniqueFd open_spool() {
  std::string name = (std::filesystem::temp_directory_path() / "millrace-upload-XXXXXX").string();
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) throw_errno("create", name, errno);
  ::unlink(name.c_str());
  return fd;
}

class UploadSink final : public ByteSink {
 public:
  UploadSink(std::shared_ptr<HttpClient> client, HttpTarget target, Replace replace,
             std::stop_token stop)
      : client_(std::move(client)),
        target_(std::move(target)),
        may_replace_(replace != Replace::kNever),
        stop_(std::move(stop)),
        spool_(std::make_shared<const UniqueFd>(open_spool())) {
    refuse_existing();
  }

  void write(std::span<const std::byte> data) override {
    MILLRACE_CHECK(spool_, "a sink is written to before finish()");
    write_fully(spool_->get(), data, "the spool of " + target_.name);
    position_ += data.size();
  }

  void finish() override {
    MILLRACE_CHECK(spool_, "a sink is finished once");
    const HttpBody body = file_body(std::exchange(spool_, nullptr), position_);
    refuse_existing();
    Backoff backoff(client_->options.retry, client_->budget);
    const Clock& clock = *client_->options.clock;
    backoff.begin(clock.now());
    try {
      while (const std::optional<HttpFault> fault = send(body, backoff.left(clock.now()))) {
        wait_for_next_try(*client_, target_.name, backoff, *fault, stop_);
      }
    } catch (Error& error) {
      error.annotate({.url = target_.name});
      throw;
    }
  }
  std::uint64_t position() const override { return position_; }

 private:
  /// A server that does not answer HEAD, or that hides what is missing, cannot tell.
  void refuse_existing() {
    if (may_replace_) return;
    const HttpAnswer answer =
        call(*client_, target_, {.method = "HEAD", .also = {403, 404, 405, 410, 501}}, stop_);
    if (answer.head.status() < 300) refuse_existing_object(target_.name);
  }

  std::optional<HttpFault> send(const HttpBody& body, std::optional<Clock::Duration> limit) {
    HttpRequest request{.method = "PUT",
                        .header_lines = {"Content-Type: application/octet-stream"},
                        .body = body,
                        .limit = limit};
    if (!may_replace_) request.header_lines.emplace_back("If-None-Match: *");
    HttpExchange exchange(*client_, target_, std::move(request), stop_);
    const auto fault = exchange.wait_for_head(stop_);
    const long status = exchange.head().status();
    if (!fault && (status == 200 || status == 201 || status == 204)) return std::nullopt;
    if (!fault && status == 412 && !may_replace_) refuse_existing_object(target_.name);
    // What is there from now on may be our own, whose answer was lost.
    if (status == 0 || status >= 500) may_replace_ = true;
    return fault ? fault : exchange.refusal(stop_);
  }

  std::shared_ptr<HttpClient> client_;
  HttpTarget target_;
  bool may_replace_;
  std::stop_token stop_;
  std::shared_ptr<const UniqueFd> spool_;
  std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<ByteSink> open_upload(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      Replace replace, const std::stop_token& stop) {
  return std::make_unique<UploadSink>(std::move(client), std::move(target), replace, stop);
}

}  // namespace millrace::io::detail
