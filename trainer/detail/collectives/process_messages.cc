#include "trainer/detail/collectives/process_messages.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "io/base/fault_text.h"

namespace millrace::trainer::detail {
namespace {

// The first byte of process 0's message.
constexpr char kDecided = 'd';
constexpr char kFailed = 'f';

void put(std::string& packed, std::string_view text) {
  const std::uint64_t size = text.size();
  packed.append(reinterpret_cast<const char*>(&size), sizeof(size));
  packed += text;
}

[[noreturn]] void bad_message() {
  throw Error(ErrorCode::kCorrupt, "another process sent an error that cannot be read");
}

std::string take(std::string_view& packed) {
  std::uint64_t size = 0;
  if (packed.size() < sizeof(size)) bad_message();
  std::memcpy(&size, packed.data(), sizeof(size));
  packed.remove_prefix(sizeof(size));
  if (packed.size() < size) bad_message();
  std::string text(packed.substr(0, size));
  packed.remove_prefix(size);
  return text;
}

Error as_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known;
  } catch (const std::exception& other) {
    return {ErrorCode::kCancelled, fault_text(other)};
  } catch (...) {
    return {ErrorCode::kCancelled, "an unknown failure"};
  }
}

}  // namespace

std::string pack_error(const std::exception_ptr& error) {
  const Error known = as_error(error);
  const Where& where = known.where();
  std::string packed;
  put(packed, error_code_name(known.code()));
  for (const std::string& text : {known.message(), where.url, where.key, where.member, where.stage})
    put(packed, text);
  put(packed, where.offset ? std::to_string(*where.offset) : "");
  return packed;
}

Error unpack_error(std::string_view packed) {
  const auto code = error_code_of(take(packed));
  if (!code) bad_message();
  std::string message = take(packed);
  Where where;
  for (std::string* text : {&where.url, &where.key, &where.member, &where.stage})
    *text = take(packed);
  const std::string offset = take(packed);
  if (!offset.empty()) where.offset = std::stoull(offset);
  return {*code, std::move(message), std::move(where)};
}

Told tell_decision(Cluster& cluster, const std::function<std::string()>& decision) {
  std::string own;
  std::exception_ptr failure;
  if (cluster.topology().process == 0) {
    try {
      own = kDecided + decision();
    } catch (...) {
      failure = std::current_exception();
      own = kFailed + pack_error(failure);
    }
  }
  const auto all = cluster.all_gather(std::as_bytes(std::span(own)));
  if (failure) return {.failure = failure};
  const std::string_view told(reinterpret_cast<const char*>(all.front().data()),
                              all.front().size());
  if (told.empty()) bad_message();
  const std::string_view content = told.substr(1);
  if (told.front() == kDecided) return {.text = std::string(content)};
  return {.failure = std::make_exception_ptr(unpack_error(content))};
}

void throw_any(Cluster& cluster, const std::exception_ptr& own) {
  const std::string packed = own ? pack_error(own) : "";
  const auto failures = cluster.all_gather(std::as_bytes(std::span(packed)));
  const auto first = std::ranges::find_if(failures, [](const auto& one) { return !one.empty(); });
  if (first == failures.end()) return;
  cluster.fail_alike();
  if (own) std::rethrow_exception(own);
  const Error told = unpack_error({reinterpret_cast<const char*>(first->data()), first->size()});
  throw Error(told.code(),
              "process " + std::to_string(first - failures.begin()) + " failed: " + told.message(),
              told.where());
}

}  // namespace millrace::trainer::detail
