/* fuzz_flight.c - any bytes as a dump of PyTorch's flight recorder, pickle or JSON: refused, or calls whose texts end and that line up. */
#include "core/memory.h"
#include "doctor/flight.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const tdmi_flight_dump *dump)
{
    for (size_t i = 0; i < dump->calls; i++) {
        const tdmi_flight_call *call = &dump->call[i];
        if (memchr(call->group, 0, sizeof call->group) == NULL || memchr(call->op, 0, sizeof call->op) == NULL ||
            memchr(call->dtype, 0, sizeof call->dtype) == NULL || memchr(call->place, 0, sizeof call->place) == NULL || call->in_elements < 0 ||
            call->out_elements < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_flight_dump dump;
    tdmi_witness witness[2] = {0};
    tdmi_lineup lineup;
    tdm_doctor_report report = {.findings = json_array()};
    (void)tdmi_flight_is_dump(data, size);
    for (int rank = 0; rank < 2; rank++) {
        if (tdmi_flight_dump_read(data, size, &dump) != TDM_OK) {
            json_decref(report.findings);
            return 0;
        }
        check(&dump);
        if (rank == 1 && dump.calls > 0)
            dump.calls--; /* this rank is one call behind */
        if (tdmi_flight_convert(&dump, rank, 2, true, &witness[rank].recording) != TDM_OK)
            abort();
        tdmi_flight_dump_free(&dump);
    }
    const tdmi_witnesses all = {.of = witness, .count = 2};
    if (tdmi_line_up(&all, &lineup) != TDM_OK)
        abort();
    tdmi_find_mismatched_calls(&lineup, &report);
    tdmi_find_missing_calls(&lineup, &report);
    tdmi_find_unstarted_calls(&lineup, &report);
    tdmi_find_unfinished_calls(&lineup, &report);
    if (report.failed)
        abort();
    tdmi_lineup_free(&lineup);
    json_decref(report.findings);
    tdmi_free(report.text);
    for (int rank = 0; rank < 2; rank++)
        tdmi_recording_free(&witness[rank].recording);
    return 0;
}
