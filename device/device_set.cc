#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <future>
#include <optional>
#include <utility>

#include "device/cpu_device.h"
#include "device/device.h"
#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/machine.h"

namespace millrace::device {
namespace {

constexpr int kMaxDevices = 1024;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("devices \"{}\": {}; write a count as 8, or numbers as [5] or [0,2]", text, why));
}

std::vector<int> cores_for(const DeviceSetOptions& options) {
  std::vector<int> cores = allowed_cores();
  const int wanted = options.num_cores > 0 ? options.num_cores : usable_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(wanted)));
  return cores;
}

/// The cores of device `place` of `count`: a slice, or one that is shared.
std::vector<int> slice(const std::vector<int>& cores, std::size_t place, std::size_t count) {
  const std::size_t begin = place * cores.size() / count;
  const std::size_t end = (place + 1) * cores.size() / count;
  if (count > cores.size()) return {cores[place % cores.size()]};
  return {cores.begin() + static_cast<std::ptrdiff_t>(begin),
          cores.begin() + static_cast<std::ptrdiff_t>(end)};
}

int parse_number(std::string_view text, std::string_view number) {
  int value = 0;
  while (number.starts_with(' ')) number.remove_prefix(1);
  while (number.ends_with(' ')) number.remove_suffix(1);
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (code != std::errc{} || end != number.data() + number.size()) {
    refuse(text, fmt::format("\"{}\" is not a number", number));
  }
  if (value < 0 || value > kMaxDevices) refuse(text, fmt::format("0 to {} only", kMaxDevices));
  return value;
}

std::vector<int> parse_list(std::string_view text, std::string_view list) {
  std::vector<int> numbers;
  for (bool more = true; more;) {
    const std::size_t end = list.find(',');
    const int number = parse_number(text, list.substr(0, end));
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      refuse(text, fmt::format("device {} is listed twice", number));
    }
    numbers.push_back(number);
    more = end != std::string_view::npos;
    if (more) list.remove_prefix(end + 1);
  }
  return numbers;
}

std::vector<int> parse_devices(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']') && text.size() > 2) {
    return parse_list(text, text.substr(1, text.size() - 2));
  }
  const int count = parse_number(text, text);
  if (count == 0) refuse(text, "there must be at least one");
  std::vector<int> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
  return numbers;
}

}  // namespace

DeviceSet::DeviceSet(std::vector<std::shared_ptr<Device>> devices) : devices_(std::move(devices)) {
  MILLRACE_CHECK(!devices_.empty(), "a set needs a device");
}

DeviceSet DeviceSet::cpu(int count, const DeviceSetOptions& options) {
  return parse(std::to_string(count), options);
}

DeviceSet DeviceSet::parse(std::string_view text, const DeviceSetOptions& options) {
  const std::vector<int> numbers = parse_devices(text);
  const std::vector<int> cores = cores_for(options);
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t place = 0; place < numbers.size(); ++place) {
    devices.push_back(std::make_shared<CpuDevice>(
        CpuDeviceOptions{numbers[place], slice(cores, place, numbers.size()), options.pin}));
  }
  return DeviceSet(std::move(devices));
}

int DeviceSet::count(std::string_view text) { return static_cast<int>(parse_devices(text).size()); }

// None begins before all are submitted: one that began alone would wait for the others.
void DeviceSet::run_all(const std::function<void(std::size_t)>& work) const {
  std::promise<bool> all_submitted;
  const std::shared_future<bool> begins = all_submitted.get_future().share();
  std::vector<std::future<void>> ends;
  ends.reserve(size());
  std::exception_ptr first;
  try {
    for (std::size_t place = 0; place < size(); ++place)
      ends.push_back(devices_[place]->submit([&work, place, begins] {
        if (begins.get()) work(place);
      }));
  } catch (...) {
    first = std::current_exception();
  }
  all_submitted.set_value(!first);
  for (std::future<void>& end : ends) {
    try {
      end.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace millrace::device
