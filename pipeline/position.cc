#include "pipeline/position.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/json.h"

namespace millrace::pipeline {
namespace {

using Json = nlohmann::json;

Json to_value(const wds::StreamPosition& position) {
  Json buffered = Json::array();
  for (const auto& ref : position.buffered) {
    buffered.push_back(ref.shard);
    buffered.push_back(ref.offset);
  }
  return {{"samples_out", position.samples_out},
          {"samples_in", position.samples_in},
          {"shard", position.shard},
          {"offset", position.offset},
          {"earlier_passes", position.earlier_passes},
          {"buffered", std::move(buffered)}};
}

Json to_value(const Position::Stream& stream) {
  Json value = {{"skip", stream.skip}, {"ended", stream.ended}};
  if (stream.start) value["start"] = to_value(*stream.start);
  return value;
}

wds::StreamPosition stream_position_from(const Json& value) {
  wds::StreamPosition position;
  position.samples_out = value.at("samples_out").get<std::uint64_t>();
  position.samples_in = value.at("samples_in").get<std::uint64_t>();
  position.shard = value.at("shard").get<std::uint32_t>();
  position.offset = value.at("offset").get<std::uint64_t>();
  position.earlier_passes = value.value("earlier_passes", std::uint64_t{0});
  if (position.earlier_passes > std::min(position.samples_in, position.samples_out))
    throw Error(ErrorCode::kCorrupt,
                "a pipeline's position: more samples in its earlier passes "
                "than in all");
  const Json& buffered = value.at("buffered");
  for (std::size_t i = 0; i + 1 < buffered.size(); i += 2) {
    position.buffered.push_back(
        {buffered[i].get<std::uint32_t>(), buffered[i + 1].get<std::uint64_t>()});
  }
  return position;
}

Position::Stream stream_from(const Json& value) {
  Position::Stream stream;
  stream.skip = value.at("skip").get<std::uint64_t>();
  stream.ended = value.at("ended").get<bool>();
  if (value.contains("start")) {
    stream.start =
        std::make_shared<const wds::StreamPosition>(stream_position_from(value.at("start")));
  }
  return stream;
}

Position position_from(const Json& value) {
  Position position;
  position.epoch = value.at("epoch").get<std::uint32_t>();
  position.batches = value.at("batches").get<std::int64_t>();
  position.next_stream = value.at("next_stream").get<std::uint32_t>();
  position.fingerprint = value.at("fingerprint").get<std::uint64_t>();
  for (const Json& stream : value.at("streams")) position.streams.push_back(stream_from(stream));
  return position;
}

}  // namespace

std::string Position::to_json() const {
  Json list = Json::array();
  for (const Stream& stream : streams) list.push_back(to_value(stream));
  const Json value = {{"epoch", epoch},
                      {"batches", batches},
                      {"next_stream", next_stream},
                      {"fingerprint", fingerprint},
                      {"streams", std::move(list)}};
  return value.dump();
}

Position Position::from_json(const std::string& text) {
  try {
    return position_from(parse_json<Json>(text, "a pipeline's position"));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt, std::string("a pipeline's position: ") + error.what());
  }
}

}  // namespace millrace::pipeline
