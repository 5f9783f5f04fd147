#include "device/pjrt/detail/key_value_callbacks.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

namespace millrace::device::pjrt {
namespace {

KeyValueStore& store_of(void* user) { return *static_cast<KeyValueStore*>(user); }

PJRT_Error* failure(PJRT_CallbackError* make, PJRT_Error_Code code, const std::string& message) {
  return (*make)(code, message.data(), message.size());
}

void forget(char* value) { delete[] value; }

// Of both ways to get: what is there, or that it is not.
template <class Args>
PJRT_Error* answer(Args& args, std::chrono::milliseconds patience) {
  try {
    const std::string key(args.key, args.key_size);
    const auto value = store_of(args.user_arg).get(key, patience);
    if (!value) {
      const bool has_waited = patience.count() > 0;
      return failure(args.callback_error,
                     has_waited ? PJRT_Error_Code_DEADLINE_EXCEEDED : PJRT_Error_Code_NOT_FOUND,
                     "no process has put " + key);
    }
    args.value = std::ranges::copy(*value, new char[value->size() + 1]).out - value->size();
    args.value_size = value->size();
    args.value_deleter_callback = forget;
    return nullptr;
  } catch (const std::exception& error) {
    return failure(args.callback_error, PJRT_Error_Code_INTERNAL, error.what());
  }
}

PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args) {
  return answer(*args, std::chrono::milliseconds(std::max(args->timeout_in_ms, 1)));
}

PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  return answer(*args, std::chrono::milliseconds(0));
}

PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args) {
  try {
    store_of(args->user_arg)
        .put(std::string(args->key, args->key_size), std::string(args->value, args->value_size));
    return nullptr;
  } catch (const std::exception& error) {
    return failure(args->callback_error, PJRT_Error_Code_INTERNAL, error.what());
  }
}

}  // namespace

void set_callbacks(PJRT_Client_Create_Args& arguments, KeyValueStore& store) {
  arguments.kv_get_callback = get;
  arguments.kv_get_user_arg = &store;
  arguments.kv_put_callback = put;
  arguments.kv_put_user_arg = &store;
  arguments.kv_try_get_callback = try_get;
  arguments.kv_try_get_user_arg = &store;
}

}  // namespace millrace::device::pjrt
