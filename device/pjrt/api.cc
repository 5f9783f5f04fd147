#include "device/pjrt/detail/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::device::pjrt {
namespace {

ErrorCode code_of(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_INVALID_ARGUMENT:
    case PJRT_Error_Code_OUT_OF_RANGE:
      return ErrorCode::kInvalidArgument;
    case PJRT_Error_Code_NOT_FOUND:
      return ErrorCode::kNotFound;
    case PJRT_Error_Code_PERMISSION_DENIED:
    case PJRT_Error_Code_UNAUTHENTICATED:
      return ErrorCode::kPermissionDenied;
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return ErrorCode::kExhausted;
    case PJRT_Error_Code_UNIMPLEMENTED:
      return ErrorCode::kUnsupported;
    case PJRT_Error_Code_CANCELLED:
      return ErrorCode::kCancelled;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

template <class Function>
void Api::check_function() const {
  if (has<Function>()) return;
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: the plugin (interface {}) has no {}",
                                                   printable(file_), version(), Function::kName));
}

Api::Api(const PJRT_Api* table, std::string file) : table_(table), file_(std::move(file)) {
  if (table_->pjrt_api_version.major_version != PJRT_API_MAJOR)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: the plugin's interface is {}, millrace's {}.{}", printable(file_),
                            version(), PJRT_API_MAJOR, PJRT_API_MINOR));
#define MILLRACE_PJRT_CHECK(NAME) check_function<functions::NAME>();
  MILLRACE_PJRT_FUNCTIONS(MILLRACE_PJRT_CHECK)
#undef MILLRACE_PJRT_CHECK
}

void Api::check_topologies() const {
#define MILLRACE_PJRT_CHECK(NAME) check_function<functions::NAME>();
  MILLRACE_PJRT_MORE_FUNCTIONS(MILLRACE_PJRT_CHECK)
#undef MILLRACE_PJRT_CHECK
}

std::string Api::version() const {
  return fmt::format("{}.{}", table_->pjrt_api_version.major_version,
                     table_->pjrt_api_version.minor_version);
}

namespace {

/// The plugin calls back when an event has happened; who waits may be gone by then.
struct Happening {
  PJRT_Error_Destroy* destroy;
  std::shared_ptr<const void> keep;
  std::promise<void> promise = {};

  // Event_Await has the error too; this one is the callback's own.
  static void tell(PJRT_Error* error, void* self) {
    const std::unique_ptr<Happening> happening(static_cast<Happening*>(self));
    PJRT_Error_Destroy_Args arguments{};
    arguments.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
    arguments.error = error;
    if (error != nullptr) happening->destroy(&arguments);
    happening->promise.set_value();
  }
};

}  // namespace

void Api::watch(PJRT_Event* event, std::string_view what, const Patience& patience,
                std::shared_ptr<const void> keep) const {
  auto happening = std::make_unique<Happening>(
      Happening{.destroy = table_->PJRT_Error_Destroy, .keep = std::move(keep)});
  const std::future<void> happened = happening->promise.get_future();
  auto arguments = arguments_of<functions::Event_OnReady>();
  arguments.event = event;
  arguments.callback = Happening::tell;
  arguments.user_arg = happening.get();
  call<functions::Event_OnReady>(arguments, what);
  static_cast<void>(happening.release());  // it deletes itself
  constexpr std::chrono::seconds kNotice{2};
  const auto is_ready = [&](std::chrono::seconds time) {
    return happened.wait_for(time) == std::future_status::ready;
  };
  if (is_ready(kNotice)) return;
  patience.log.info(fmt::format("waiting for {} of {}", what, file_));
  if (patience.limit.count() == 0) return happened.wait();
  if (!is_ready(std::max(patience.limit - kNotice, std::chrono::seconds(0))))
    throw Error(ErrorCode::kExhausted, fmt::format("{}: {} has not answered within {} s", what,
                                                   file_, patience.limit.count()));
}

void Api::await(PJRT_Event* event, std::string_view what, const Patience& patience,
                std::shared_ptr<const void> keep) const {
  if (event == nullptr) return;
  const OwnedEvent owned(*this, event);
  watch(event, what, patience, std::move(keep));
  auto wait = arguments_of<functions::Event_Await>();
  wait.event = event;
  call<functions::Event_Await>(wait, what);
}

void Api::destroy(PJRT_Error* error) const {
  PJRT_Error_Destroy_Args arguments{};
  arguments.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
  arguments.error = error;
  table_->PJRT_Error_Destroy(&arguments);
}

void Api::fail(PJRT_Error* error, std::string_view what) const {
  PJRT_Error_Message_Args message{};
  message.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  message.error = error;
  table_->PJRT_Error_Message(&message);
  PJRT_Error_GetCode_Args code{};
  code.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE;
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  if (PJRT_Error* const second = table_->PJRT_Error_GetCode(&code)) destroy(second);
  constexpr std::size_t kMost = 2000;  // a compiler's message may quote a whole program
  const std::string text = fmt::format(
      "{}: {}", what, printable(std::string(message.message, message.message_size), kMost));
  destroy(error);
  throw Error(code_of(code.code), text);
}

}  // namespace millrace::device::pjrt
