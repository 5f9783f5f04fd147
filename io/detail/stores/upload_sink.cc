#include "io/detail/stores/upload_sink.h"

#include <fcntl.h>
#include <stdlib.h>  // for mkostemp
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "io/base/check.h"
#include "io/detail/files/unique_fd.h"

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
  UploadSink(std::shared_ptr<HttpClient> client, HttpTarget target, std::stop_token stop)
      : client_(std::move(client)),
        target_(std::move(target)),
        stop_(std::move(stop)),
        spool_(std::make_shared<const UniqueFd>(open_spool())) {}

  void write(std::span<const std::byte> data) override {
    MILLRACE_CHECK(spool_, "a sink is written to before finish()");
    write_fully(spool_->get(), data, "the spool of " + target_.name);
    position_ += data.size();
  }

  void finish() override {
    MILLRACE_CHECK(spool_, "a sink is finished once");
    const HttpBody body = file_body(std::exchange(spool_, nullptr), position_);
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
  std::optional<HttpFault> send(const HttpBody& body, std::optional<Clock::Duration> limit) {
    HttpExchange exchange(*client_, target_,
                          {.method = "PUT",
                           .header_lines = {"Content-Type: application/octet-stream"},
                           .body = body,
                           .limit = limit},
                          stop_);
    if (auto fault = exchange.wait_for_head(stop_)) return fault;
    const long status = exchange.head().status();
    if (status == 200 || status == 201 || status == 204) return std::nullopt;
    return exchange.refusal(stop_);
  }

  std::shared_ptr<HttpClient> client_;
  HttpTarget target_;
  std::stop_token stop_;
  std::shared_ptr<const UniqueFd> spool_;
  std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<ByteSink> open_upload(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const std::stop_token& stop) {
  return std::make_unique<UploadSink>(std::move(client), std::move(target), stop);
}

}  // namespace millrace::io::detail
