#include "io/base/json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace millrace {
namespace {

// Upper bounds for nlohmann's containers, including allocator overhead and spare vector capacity.
constexpr std::size_t kValueBytes = 32;
constexpr std::size_t kListBytes = 48;
constexpr std::size_t kObjectBytes = 80;
constexpr std::size_t kKeyBytes = 96;
constexpr std::size_t kStringBytes = 48;

class Scanner {
 public:
  Scanner(std::string_view text, std::string_view what, const JsonLimits& limits)
      : text_(text), what_(what), limits_(limits) {}

  /// Scans to the end, or to where the parser will find that this is not JSON.
  void run() {
    if (text_.size() > limits_.bytes) {
      fail("of " + std::to_string(text_.size()) + " bytes, more than " +
               std::to_string(limits_.bytes),
           limits_.bytes);
    }
    while (at_ < text_.size() && step(text_[at_])) ++at_;
  }

 private:
  bool step(char c) {
    switch (c) {
      case '"':
        return string();
      case '[':
      case '{':
        return open(c == '[' ? kListBytes : kObjectBytes);
      case ']':
      case '}':
        return close();
      case ':':
        if (limits_.unique_keys) keys_.push_back(last_string_);
        return charge(kKeyBytes);
      case ',':
        return charge(kValueBytes);
      case '\0':  // nlohmann's parser would take it for the end of the text
        fail("a NUL byte outside of a string", at_);
      default:
        return true;
    }
  }

  bool string() {
    const std::size_t first = ++at_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    if (at_ >= text_.size()) return false;
    last_string_ = text_.substr(first, at_ - first);
    return charge(kStringBytes + last_string_.size());
  }

  bool open(std::size_t bytes) {
    if (first_key_.size() == limits_.depth) {
      fail("nested more than " + std::to_string(limits_.depth) + " deep", at_);
    }
    first_key_.push_back(keys_.size());
    return charge(bytes + kValueBytes);
  }

  bool close() {
    if (first_key_.empty()) return false;
    refuse_equal_keys(keys_.begin() + static_cast<std::ptrdiff_t>(first_key_.back()));
    keys_.resize(first_key_.back());
    first_key_.pop_back();
    return true;
  }

  void refuse_equal_keys(std::vector<std::string_view>::iterator first) {
    std::sort(first, keys_.end());
    const auto twice = std::adjacent_find(first, keys_.end());
    if (twice == keys_.end()) return;
    constexpr std::size_t kShown = 80;
    const auto offset = static_cast<std::size_t>(
        std::max(twice[0].data(), twice[1].data(), std::less<>()) - text_.data());
    fail("the key \"" + std::string(twice->substr(0, kShown)) + "\" occurs twice in one object",
         offset);
  }

  bool charge(std::size_t bytes) {
    memory_ += bytes;
    if (memory_ > limits_.memory_bytes) {
      fail("would take more than " + std::to_string(limits_.memory_bytes) + " bytes of memory",
           at_);
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& message, std::size_t offset) const {
    throw Error(ErrorCode::kCorrupt,
                std::string(what_) + ": " + message + ", at byte " + std::to_string(offset));
  }

  std::string_view text_;
  std::string_view what_;
  const JsonLimits& limits_;
  std::size_t at_ = 0;
  std::size_t memory_ = 0;
  std::string_view last_string_;
  /// The keys of all open objects, and for each open object or list the index of its first key.
  std::vector<std::string_view> keys_;
  std::vector<std::size_t> first_key_;
};

// At `offset` of `text` or, if that is its end, cut short.
[[noreturn]] void throw_not_json(std::string_view text, std::string_view what, std::size_t offset) {
  const bool cut = offset >= text.size();
  throw Error(ErrorCode::kCorrupt,
              std::string(what) + ": not JSON" +
                  (cut ? ", or cut short" : " at byte " + std::to_string(offset)));
}

}  // namespace

template <typename Json>
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  Scanner(text, what, limits).run();
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const typename Json::parse_error& error) {
    throw_not_json(text, what, error.byte == 0 ? 0 : error.byte - 1);
  } catch (const typename Json::exception&) {
    throw Error(ErrorCode::kCorrupt, std::string(what) + ": a number is beyond any double");
  }
}

// Here alone: the parser takes a compiler as long as most of the sources that call it.
template nlohmann::json parse_json(std::string_view, std::string_view, const JsonLimits&);
template nlohmann::ordered_json parse_json(std::string_view, std::string_view, const JsonLimits&);

}  // namespace millrace
