#include "wds/shard_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/check.h"
#include "io/base/error.h"
#include "wds/detail/key_set.h"
#include "wds/member_name.h"

namespace millrace::wds {
namespace {

/// A member that belongs to a sample, its header read and its payload not.
struct Pending {
  TarMember member;
  std::string key;
  std::string suffix;
  /// What makes the member, and so its whole sample, unfit to be handed up.
  std::optional<Error> fault;
};

std::vector<std::string> suffixes_of(const Sample& sample) {
  std::vector<std::string> suffixes;
  for (const Field& field : sample.fields) suffixes.push_back(field.suffix);
  std::sort(suffixes.begin(), suffixes.end());
  return suffixes;
}

}  // namespace

struct ShardReader::State {
  State(const io::Opener& borrowed, std::string wanted_url, ShardOptions wanted)
      : opener(borrowed),
        options(std::move(wanted)),
        url(std::make_shared<const std::string>(std::move(wanted_url))) {
    options.tar.lenient = options.lenient;
  }

  void open();
  bool reopen_compressed();
  bool next(Sample& sample);
  void start();
  void read_sample(Sample& sample);
  void advance();
  bool next_member(Pending& next);
  bool accept(Pending& next);
  void begin(Sample& sample);
  void add_field(Sample& sample);
  void check_whole(const Sample& sample);
  [[noreturn]] void drop(Error error);

  const io::Opener& opener;
  ShardOptions options;
  std::shared_ptr<const std::string> url;
  std::unique_ptr<TarReader> tar;
  std::optional<Pending> pending;
  std::optional<std::string> dropped_key;  // members with it belong to a sample at fault
  detail::KeySet keys;
  std::vector<std::string> last_suffixes;  // lenient alone
  bool started = false;
  bool skip_pending = false;  // it belongs to what was dropped
  bool broken = false;
};

void ShardReader::State::open() {
  auto source = opener.open(*url, {.offset = options.offset, .stop = options.stop});
  tar = std::make_unique<TarReader>(std::move(source), options.tar, options.offset);
}

// An offset in a compressed tar is one in what it unpacks to: read from the beginning, drop the
// rest.
bool ShardReader::State::reopen_compressed() {
  auto source = opener.open(*url, {.stop = options.stop});
  auto whole = std::make_unique<TarReader>(std::move(source), options.tar);
  if (!whole->skip_to(options.offset)) return false;
  tar = std::move(whole);
  return true;
}

// Puts the next member that belongs to a sample into `pending`, or nothing at the end.
void ShardReader::State::advance() {
  pending.reset();
  for (Pending next; next_member(next);) {
    if (!next.fault && !next.member.regular) continue;
    if (!accept(next)) continue;
    // Members of a sample that was dropped already cost nothing more.
    if (dropped_key && next.key == *dropped_key) continue;
    dropped_key.reset();
    pending = std::move(next);
    return;
  }
}

// The next member of the tar; what is wrong with it alone becomes its fault.
bool ShardReader::State::next_member(Pending& next) {
  next.fault.reset();
  try {
    return tar->next(next.member);
  } catch (Error& error) {
    if (!tar->can_continue()) throw;
    next.fault = std::move(error);
    return true;
  }
}

// Whether the member counts; fills in its key and suffix, and finds fault with its name.
bool ShardReader::State::accept(Pending& next) {
  std::string& path = next.member.name;
  if (is_metadata_member(path)) return false;
  if (options.rename) path = options.rename(path);
  if (options.select && !options.select(path)) return false;
  const auto name = split_member_name(path);
  next.key = name ? name->key : std::string_view();
  next.suffix = name ? name->suffix : std::string();
  if (!name || next.fault) return next.fault.has_value();
  try {
    check_member_name(path);
  } catch (Error& error) {
    error.annotate({.member = path, .offset = next.member.offset});
    next.fault = std::move(error);
  }
  return true;
}

bool ShardReader::State::next(Sample& sample) {
  MILLRACE_CHECK(!broken, "a broken shard cannot go on");
  broken = true;  // until this call has come to a good end
  if (!std::exchange(started, true)) {
    start();
  } else if (std::exchange(skip_pending, false)) {
    advance();
  }
  const bool found = pending.has_value();
  if (found) read_sample(sample);
  broken = false;
  return found;
}

void ShardReader::State::start() {
  try {
    advance();
  } catch (const Error& error) {
    const bool final =
        error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kNotFound;
    if (options.offset == 0 || final) throw;
    if (!reopen_compressed()) throw;
    advance();
  }
}

void ShardReader::State::read_sample(Sample& sample) {
  begin(sample);
  do {
    add_field(sample);
    try {
      advance();
    } catch (Error& error) {
      error.annotate({.key = sample.key});
      throw;
    }
  } while (pending && pending->key == sample.key);
  if (!pending) check_whole(sample);
  if (options.lenient) last_suffixes = suffixes_of(sample);
}

void ShardReader::State::begin(Sample& sample) {
  sample.key = pending->key;
  sample.url = url;
  sample.offset = pending->member.offset;
  sample.fields.clear();
  const auto before = keys.insert(sample.key, sample.offset);
  if (!before || options.lenient) return;
  drop(Error(ErrorCode::kCorrupt,
             "members of one key are not together: its first lies at " + std::to_string(*before),
             {.member = pending->member.name, .offset = pending->member.offset}));
}

void ShardReader::State::add_field(Sample& sample) {
  if (pending->fault) drop(*pending->fault);
  if (sample.find(pending->suffix) != nullptr) {
    drop(Error(ErrorCode::kCorrupt, "suffix '" + pending->suffix + "' twice in one sample",
               {.member = pending->member.name, .offset = pending->member.offset}));
  }
  Field field;
  try {
    field.data = tar->read_payload();
  } catch (Error& error) {
    error.annotate({.key = sample.key, .offset = pending->member.offset});
    throw;
  }
  field.suffix = std::move(pending->suffix);
  field.offset = pending->member.data_offset;
  sample.fields.push_back(std::move(field));
}

// Throws away the sample that `pending` belongs to; its members still to come will be passed over.
void ShardReader::State::drop(Error error) {
  error.annotate({.key = pending->key});
  dropped_key.reset();
  if (!pending->key.empty()) dropped_key = pending->key;
  skip_pending = true;
  broken = false;
  throw Error(std::move(error));
}

// Without an end marker nobody knows whether more members were to come. Lenient readers take the
// last sample when it has the fields that the one before it had.
void ShardReader::State::check_whole(const Sample& sample) {
  if (tar->warnings().missing_end == 0 || last_suffixes.empty()) return;
  if (suffixes_of(sample) == last_suffixes) return;
  broken = false;
  throw Error(ErrorCode::kTruncated, "tar ends without its end marker, within a sample",
              {.key = sample.key, .offset = sample.offset});
}

ShardReader::ShardReader(const io::Opener& opener, const std::string& url,
                         const ShardOptions& options)
    : state_(std::make_unique<State>(opener, url, options)) {
  try {
    state_->open();
  } catch (Error& error) {
    error.annotate({.url = io::printable_url(url)});
    throw;
  }
}
ShardReader::~ShardReader() = default;
ShardReader::ShardReader(ShardReader&&) noexcept = default;
ShardReader& ShardReader::operator=(ShardReader&&) noexcept = default;

bool ShardReader::next(Sample& sample) {
  try {
    return state_->next(sample);
  } catch (Error& error) {
    error.annotate({.url = io::printable_url(*state_->url)});
    throw;
  }
}

bool ShardReader::can_continue() const { return !state_->broken; }
std::uint64_t ShardReader::position() const {
  if (!state_->started) return state_->options.offset;
  return state_->pending && !state_->skip_pending ? state_->pending->member.offset
                                                  : state_->tar->position();
}
bool ShardReader::at_end() const { return state_->started && !state_->pending; }
const TarWarnings& ShardReader::warnings() const { return state_->tar->warnings(); }

}  // namespace millrace::wds
