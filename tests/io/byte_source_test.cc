// The conformance suite of ByteSource: each implementation joins at the bottom of this file.
#include "io/byte_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using testing::Nginx;
using testing::TempDir;

std::string some_content(std::size_t size) {
  std::string content(size, '\0');
  for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>((i * 2654435761U) >> 13);
  return content;
}

// One object somewhere, that can be opened.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::unique_ptr<ByteSource> open(const OpenOptions& options) = 0;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Object>(const std::string& content)> make;
};

class ByteSourceConformance : public ::testing::TestWithParam<Kind> {
 protected:
  // Makes the object, or skips the test when the machine lacks what it takes.
  void make(std::string content) {
    if (GetParam().name.starts_with("Nginx")) {
      if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
    }
    content_ = std::move(content);
    object_ = GetParam().make(content_);
  }
  std::unique_ptr<ByteSource> open(const OpenOptions& options = {}) {
    return object_->open(options);
  }

  std::string content_;
  std::unique_ptr<Object> object_;
};

TEST_P(ByteSourceConformance, GivesEveryByteOnceInOrder) {
  make(some_content(3'000'000));
  if (!object_) return;
  for (const std::size_t step : {std::size_t{4093}, std::size_t{1} << 20, std::size_t{8} << 20}) {
    const auto source = open();
    std::string got;
    std::vector<std::byte> buffer(step);
    while (const std::size_t count = source->read(buffer)) {
      got.append(reinterpret_cast<const char*>(buffer.data()), count);
      ASSERT_EQ(source->position(), got.size());
    }
    EXPECT_TRUE(got == content_) << "differs with reads of " << step;
    EXPECT_EQ(source->read(buffer), 0U) << "the end stays the end";
  }
}

TEST_P(ByteSourceConformance, StartsAtAnyOffset) {
  make(some_content(100'000));
  if (!object_) return;
  for (const std::size_t offset : {1UL, 512UL, 65'536UL, 99'999UL, 100'000UL}) {
    const auto source = open({.offset = offset});
    EXPECT_EQ(source->position(), offset);
    EXPECT_TRUE(read_all(*source, 1 << 20).text() == content_.substr(offset)) << offset;
    EXPECT_EQ(source->size().value_or(content_.size()), content_.size());
  }
}

TEST_P(ByteSourceConformance, AnOffsetPastTheEndIsTruncated) {
  make("0123456789");
  if (!object_) return;
  try {
    const auto source = open({.offset = 11});
    read_all(*source, 100);
    FAIL() << "read from behind the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTruncated) << error.what();
    EXPECT_FALSE(error.where().url.empty());
  }
}

TEST_P(ByteSourceConformance, AnEmptyObjectIsOnlyItsEnd) {
  make("");
  if (!object_) return;
  const auto source = open();
  std::byte buffer[16];
  EXPECT_EQ(source->read(buffer), 0U);
  EXPECT_EQ(source->size().value_or(0), 0U);
}

TEST_P(ByteSourceConformance, AStopBeforehandIsCancelled) {
  make("0123456789");
  if (!object_) return;
  std::stop_source stop;
  stop.request_stop();
  try {
    const auto source = open({.stop = stop.get_token()});
    // A source may hand on what it has already; the waiting that follows must not be.
    read_all(*source, 100);
    FAIL() << "read in spite of the stop";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
  }
}

TEST_P(ByteSourceConformance, MayGoInMidRead) {
  make(some_content(20'000'000));
  if (!object_) return;
  auto source = open();
  std::vector<std::byte> buffer(1000);
  ASSERT_GT(source->read(buffer), 0U);
  source.reset();
}

class LocalFile final : public Object {
 public:
  LocalFile(std::string prefix, const std::string& content) : prefix_(std::move(prefix)) {
    testing::write_file(dir_ / "a#1?.tar", content);
  }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    const std::string name = prefix_.empty() ? "a#1?.tar" : "a%231%3F.tar";
    return opener_.open(prefix_ + (dir_ / name), options);
  }

 private:
  std::string prefix_;
  TempDir dir_;
  UrlOpener opener_;
};

class NginxFile final : public Object {
 public:
  NginxFile(const std::string& content, testing::NginxOptions options)
      : server_((testing::write_file(dir_ / "a.tar", content), dir_.path()), options),
        opener_({.http = {.ca_file = options.tls ? server_.ca_file() : ""}}) {}
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open(server_.url("a.tar"), options);
  }

 private:
  TempDir dir_;
  Nginx server_;
  UrlOpener opener_;
};

class ServerWithoutRanges final : public Object {
 public:
  explicit ServerWithoutRanges(const std::string& content)
      : server_([content](const testing::ScriptedRequest&) -> testing::ScriptedReply {
          return {testing::http_reply(200, "", content)};
        }) {}
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open(server_.url("/a.tar?secret"), options);
  }

 private:
  testing::ScriptedHttpServer server_;
  UrlOpener opener_;
};

class Command final : public Object {
 public:
  explicit Command(const std::string& content) { testing::write_file(dir_ / "a", content); }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    return opener_.open("pipe:cat '" + (dir_ / "a") + "'", options);
  }

 private:
  TempDir dir_;
  UrlOpener opener_{{.allow_pipe = true}};
};

class Fifo final : public Object {
 public:
  explicit Fifo(std::string content) : content_(std::move(content)) {
    EXPECT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  }
  ~Fifo() override { unblock(); }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    unblock();
    auto source = opener_.open(dir_ / "fifo", options);
    writer_ = std::thread([this] { write_content(); });
    return source;
  }

 private:
  void write_content() {
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);  // a reader may go early
    std::string_view rest = content_;
    const int fd = ::open((dir_ / "fifo").c_str(), O_WRONLY);
    while (!rest.empty()) {
      const ssize_t wrote = ::write(fd, rest.data(), rest.size());
      if (wrote <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(wrote));
    }
    ::close(fd);
  }
  // The writer waits for a reader to open: be one, briefly.
  void unblock() {
    if (!writer_.joinable()) return;
    const int fd = ::open((dir_ / "fifo").c_str(), O_RDONLY | O_NONBLOCK);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::close(fd);
    writer_.join();
  }

  TempDir dir_;
  std::string content_;
  UrlOpener opener_;
  std::thread writer_;
};

class StandardInput final : public Object {
 public:
  explicit StandardInput(const std::string& content) : saved_(::dup(0)) {
    testing::write_file(dir_ / "a", content);
  }
  ~StandardInput() override {
    ::dup2(saved_, 0);
    ::close(saved_);
  }
  std::unique_ptr<ByteSource> open(const OpenOptions& options) override {
    const int fd = ::open((dir_ / "a").c_str(), O_RDONLY);
    ::dup2(fd, 0);
    ::close(fd);
    return opener_.open("-", options);
  }

 private:
  TempDir dir_;
  int saved_;
  UrlOpener opener_;
};

template <typename T, typename... Arguments>
auto maker(Arguments... arguments) {
  return [=](const std::string& content) -> std::unique_ptr<Object> {
    if constexpr (sizeof...(Arguments) == 0) {
      return std::make_unique<T>(content);
    } else {
      return std::make_unique<T>(arguments..., content);
    }
  };
}

Kind nginx(std::string name, testing::NginxOptions options) {
  return {std::move(name), [=](const std::string& content) -> std::unique_ptr<Object> {
            return std::make_unique<NginxFile>(content, options);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    All, ByteSourceConformance,
    ::testing::Values(Kind{"Path", maker<LocalFile>(std::string())},
                      Kind{"FileUrl", maker<LocalFile>(std::string("file://"))}, nginx("Nginx", {}),
                      nginx("NginxTls", {.tls = true}),
                      nginx("NginxWithoutRanges", {.location_lines = "max_ranges 0;"}),
                      Kind{"ServerWithoutRanges", maker<ServerWithoutRanges>()},
                      Kind{"Pipe", maker<Command>()}, Kind{"Fifo", maker<Fifo>()},
                      Kind{"StandardInput", maker<StandardInput>()}),
    [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace millrace::io
