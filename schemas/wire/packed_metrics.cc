#include "schemas/wire/packed_metrics.h"

#include "schemas/wire/residuals.h"

namespace ccld::wire {
namespace {

// Packs or unpacks, as `code` does.
template <class Code>
void each_column(Code& code, std::vector<MetricRow>& rows) {
  each_of(code, 0, rows.size(), [&](size_t i) { code(rows[i].id, i == 0 ? 0 : rows[i - 1].id); });
  each_of(code, 0, rows.size(), [&](size_t i) { code(rows[i].instance, i == 0 ? 0 : rows[i - 1].instance); });
  each_of(code, 0, rows.size(), [&](size_t i) { code(rows[i].value, 0); });
}

}  // namespace

std::vector<uint8_t> pack(std::vector<MetricRow> rows) {
  ResidualWriter writer;
  each_column(writer, rows);
  return writer.finish();
}

bool unpack(const uint8_t* bytes, size_t size, std::vector<MetricRow>& rows) {
  ResidualReader reader(bytes, size, rows.size());
  each_column(reader, rows);
  return reader.good() && reader.ended();
}

}  // namespace ccld::wire
