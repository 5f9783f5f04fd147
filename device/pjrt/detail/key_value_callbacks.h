// How a plugin asks a KeyValueStore.
#pragma once

#include <pjrt_c_api.h>

#include "device/pjrt/key_value_store.h"

namespace millrace::device::pjrt {

/// Sets the callbacks, which keep `store` by its address: it must outlive the client. Failures of
/// the store become the plugin's errors.
void set_callbacks(PJRT_Client_Create_Args& arguments, KeyValueStore& store);

}  // namespace millrace::device::pjrt
