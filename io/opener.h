// Opener: from a url to a ByteSource. What a url may name is decided here and nowhere else.
//
//   UrlOpener opener({.allow_pipe = false});
//   auto source = opener.open("shards/train-000000.tar");
//   auto rest = opener.open("https://host/a.tar", {.offset = 1'048'576});
//
// Schemes: a path or file://, http:// and https://, s3://BUCKET/KEY and gs://BUCKET/KEY, `-`
// (standard input), `pipe:COMMAND` when allowed, and those of the user's own stores. A path may
// hold any character: `x#1.tar` and `a:b?.tar` are files.
//
// Threads: open() may be called from many threads. All HTTP sources of an opener share one thread,
// its connections and its budget of retries, and may outlive the opener.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/byte_sink.h"
#include "io/byte_source.h"
#include "io/http_options.h"
#include "io/object_store_options.h"

namespace millrace::io {

struct OpenOptions {
  /// Where to start, in bytes from the object's beginning. A pipe must read and drop up to there.
  std::uint64_t offset = 0;
  /// Makes opening and reading throw Cancelled.
  std::stop_token stop = {};
};

/// What urls of one scheme lead to. A scheme that is not known here is added by naming a Store in
/// UrlOpenerOptions::stores; tests/install/stranger/own_store.h is one.
struct Store {
  /// Before "://", in lower case: "az".
  std::string scheme;
  /// Opens an object, at the offset and with the stop that it is given. As Opener::open(). Called
  /// from many threads.
  std::function<std::unique_ptr<ByteSource>(const std::string& url, const OpenOptions& options)>
      open;
  /// Makes an object, as UrlOpener::open_sink(); empty where nothing can be written.
  std::function<std::unique_ptr<ByteSink>(const std::string& url, const FileSinkOptions& options,
                                          const std::stop_token& stop)>
      create = {};
};

class Opener {
 public:
  virtual ~Opener() = default;
  /// A source that stands at `options.offset`. Lifetime: it may outlive the opener. Throws:
  /// NotFound, Io, InvalidArgument (a scheme that is unknown or not allowed). Faults of the network
  /// come from the first read(): open() sends the request and does not wait.
  virtual std::unique_ptr<ByteSource> open(const std::string& url,
                                           const OpenOptions& options = {}) const = 0;
};

struct UrlOpenerOptions {
  HttpOptions http = {};
  ObjectStoreOptions object_stores = ObjectStoreOptions::from_environment();
  /// Ends what is opened without a stop of its own: a program's, so that no wait is forgotten.
  std::stop_token stop = {};
  /// Whether `pipe:COMMAND` may run a shell. Never switched on by data: only by the user.
  bool allow_pipe = false;
  /// The user's own, by scheme; one takes the place of what is known here.
  std::vector<Store> stores = {};
};

class UrlOpener final : public Opener {
 public:
  explicit UrlOpener(UrlOpenerOptions options = {});
  ~UrlOpener() override;
  std::unique_ptr<ByteSource> open(const std::string& url,
                                   const OpenOptions& options = {}) const override;

  /// Where an object at `url` is made: a file as open_file_sink() makes it, or a PUT to http(s)://,
  /// s3:// or gs:// that finish() sends and `stop` ends; what was there is replaced. Throws:
  /// InvalidArgument (a scheme that is unknown, or cannot be written), and as open_file_sink().
  std::unique_ptr<ByteSink> open_sink(const std::string& url, const FileSinkOptions& options = {},
                                      const std::stop_token& stop = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A whole small object: a manifest, an index. Throws: Exhausted when it has more than
/// `limit_bytes`, and as open() and read() do.
Bytes read_object(const Opener& opener, const std::string& url, std::size_t limit_bytes,
                  const std::stop_token& stop = {});

/// True for a url of any store: name://, but for file:// and pipe:. What lies there is read over
/// the network, as far as anybody here knows.
bool is_network_url(const std::string& url);
/// True for "-" and pipe: urls: read once from start to end, with no place where an index or a
/// manifest could lie beside them.
bool is_stream_url(const std::string& url);
/// `url` without user, password, query string and fragment: what may be printed or logged. Paths
/// and pipe: commands stay as they are.
std::string printable_url(const std::string& url);

}  // namespace millrace::io
