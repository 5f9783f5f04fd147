#include "io/detail/stores/parted_sink.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::io::detail {
namespace {

// A part on its way: sent at once, and again until the store has it.
class Flight {
 public:
  Flight(HttpClient& client, PartedUpload& upload, ObjectPart part, std::stop_token stop)
      : client_(client),
        upload_(upload),
        part_(std::move(part)),
        stop_(std::move(stop)),
        backoff_(client.options.retry, client.budget) {
    send();
  }

  void land() {
    backoff_.begin(now());
    while (const std::optional<HttpFault> fault = try_once()) {
      exchange_.reset();
      wait_for_next_try(client_, upload_.name(), backoff_, *fault, stop_);
    }
    exchange_.reset();
  }

 private:
  Clock::TimePoint now() const { return client_.options.clock->now(); }

  void send() {
    PartedUpload::Request request = upload_.request(part_);
    call_ = std::move(request.call);
    exchange_ = std::make_unique<HttpExchange>(client_, request.target,
                                               request_for(call_, backoff_.left(now())), stop_);
  }

  std::optional<HttpFault> try_once() {
    if (!exchange_) send();
    HttpAnswer answer;
    if (auto fault = take_answer(*exchange_, call_, stop_, answer)) return fault;
    return upload_.accept(part_, answer);
  }

  HttpClient& client_;
  PartedUpload& upload_;
  ObjectPart part_;
  std::stop_token stop_;
  Backoff backoff_;
  HttpCall call_;
  std::unique_ptr<HttpExchange> exchange_;
};

class PartedSink final : public ByteSink {
 public:
  PartedSink(std::shared_ptr<HttpClient> client, std::unique_ptr<PartedUpload> upload,
             std::stop_token stop)
      : client_(std::move(client)), upload_(std::move(upload)), stop_(std::move(stop)) {}

  ~PartedSink() override {
    if (finished_) return;
    flights_.clear();  // first: a part that arrives after abort() would stay
    if (begun_) upload_->abort();
  }
  PartedSink(const PartedSink&) = delete;
  PartedSink& operator=(const PartedSink&) = delete;

  void write(std::span<const std::byte> data) override {
    guarded([&] {
      while (!data.empty()) {
        if (buffer_.size() == kPartBytes) send_part(take_buffer(), false);
        buffer_.reserve(kPartBytes);
        const std::size_t count = std::min(data.size(), kPartBytes - buffer_.size());
        buffer_.insert(buffer_.end(), data.begin(),
                       data.begin() + static_cast<std::ptrdiff_t>(count));
        data = data.subspan(count);
        position_ += count;
      }
    });
  }

  void finish() override {
    guarded([&] {
      const Bytes content = take_buffer();
      if (!begun_ && upload_->put(content, stop_)) return;
      send_part(content, true);
      while (!flights_.empty()) land_first();
      upload_->complete(stop_);
    });
    finished_ = true;
  }
  std::uint64_t position() const override { return position_; }

 private:
  template <typename Work>
  void guarded(Work work) {
    MILLRACE_CHECK(!finished_, "a sink is used before finish()");
    if (failed_) throw Error(ErrorCode::kIo, "an earlier write failed", {.url = upload_->name()});
    failed_ = true;
    try {
      work();
    } catch (Error& error) {
      error.annotate({.url = upload_->name()});
      throw;
    }
    failed_ = false;
  }

  Bytes take_buffer() { return Bytes::take(std::exchange(buffer_, {})); }

  void send_part(Bytes content, bool last) {
    if (!std::exchange(begun_, true)) upload_->begin(stop_);
    if (flights_.size() == upload_->parallel()) land_first();
    const std::uint64_t offset = position_ - content.size();
    flights_.emplace_back(
        *client_, *upload_,
        ObjectPart{
            .number = number_++, .offset = offset, .content = std::move(content), .last = last},
        stop_);
  }

  void land_first() {
    flights_.front().land();
    flights_.pop_front();
  }

  std::shared_ptr<HttpClient> client_;
  std::unique_ptr<PartedUpload> upload_;
  std::stop_token stop_;
  std::vector<std::byte> buffer_;
  std::deque<Flight> flights_;
  std::uint64_t number_ = 0;
  std::uint64_t position_ = 0;
  bool begun_ = false;
  bool failed_ = false;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<ByteSink> open_parted_sink(std::shared_ptr<HttpClient> client,
                                           std::unique_ptr<PartedUpload> upload,
                                           const std::stop_token& stop) {
  return std::make_unique<PartedSink>(std::move(client), std::move(upload), stop);
}

void refuse_existing_object(const std::string& name) {
  throw Error(ErrorCode::kInvalidArgument, "object exists and may not be replaced", {.url = name});
}

}  // namespace millrace::io::detail
