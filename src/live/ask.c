/* ask.c - hands a request out to several processes as closely together as their polls allow, and waits for what they write.
 *
 * Polls come every period, each process's at its own moment of it. The request goes first to the process that asks first after the
 * longest pause, and then to all others as they ask: so all take it up within the spread, the least there is. */
#include "live/ask.h"

#include "core/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TURN_MS 100

static tdmi_client *client_of(const tdm_live *live, const tdmi_seat *seat)
{
    return tdmi_clients_find(&live->daemon.clients, seat->pid);
}

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static tdm_status write_requests(const tdm_live *live, tdmi_seat *seats, size_t count, tdmi_request request, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        char file[96], path[224], rank[16];
        const char *mark = strstr(name, "%d");
        snprintf(rank, sizeof rank, "%d", seats[i].rank);
        if (mark != NULL)
            snprintf(file, sizeof file, "%.*s%s%s" TDMI_REQUEST_ENDING, (int)(mark - name), name, rank, mark + 2);
        else
            snprintf(file, sizeof file, "%s" TDMI_REQUEST_ENDING, name);
        tdmi_folder_trace(&live->folder, file, path, sizeof path);
        request.path = path;
        const tdm_status status = tdmi_request_write(&request, seats[i].text);
        if (status != TDM_OK)
            return status;
        tdmi_request_file(&request, (int)seats[i].pid, seats[i].file, sizeof seats[i].file);
        seats[i].missing[0] = '\0';
    }
    return TDM_OK;
}

tdmi_turn tdmi_turn_of(const tdm_live *live, const tdmi_seat *seats, size_t count)
{
    tdmi_client *clients[TDMI_SEATS_MAX];
    tdmi_turn turn = {.period_ns = live->period_ns, .spread_ns = live->period_ns};
    for (size_t i = 0; i < count; i++)
        if ((clients[i] = client_of(live, &seats[i])) == NULL)
            return turn;
    turn.period_ns = tdmi_clients_period(clients, count, live->period_ns);
    turn.first = tdmi_clients_first_of_turn(clients, count, turn.period_ns, &turn.spread_ns);
    return turn;
}

/* Takes back what nobody has taken up. */
static void withdraw(const tdm_live *live, tdmi_seat *seats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tdmi_client *client = client_of(live, &seats[i]);
        if (client != NULL)
            client->request = NULL;
    }
}

/* Until all have taken theirs up, or have had the time to. */
static tdm_status hand_out(tdm_live *live, tdmi_seat *seats, size_t count, int64_t since_ns)
{
    const tdmi_turn turn = tdmi_turn_of(live, seats, count);
    const int64_t deadline_ns = since_ns + 3 * turn.period_ns + 3 * TDMI_NS_PER_S;
    bool begun = false;
    for (size_t waiting = count; waiting > 0 && !tdmi_deadline_passed(deadline_ns);) {
        waiting = 0;
        for (size_t i = 0; i < count; i++) {
            tdmi_client *client = client_of(live, &seats[i]);
            if (client == NULL || client->taken_ns > since_ns)
                begun = begun || i == turn.first;
        }
        for (size_t i = 0; i < count; i++) {
            tdmi_client *client = client_of(live, &seats[i]);
            if (client == NULL || client->taken_ns > since_ns)
                continue;
            waiting++;
            if (begun || i == turn.first)
                client->request = seats[i].text;
        }
        tdm_status status = tdmi_live_goes_on(live);
        if (status != TDM_OK)
            return status;
        if (waiting > 0)
            tdmi_live_turn(live, 20);
    }
    return TDM_OK;
}

static void say_why(const tdm_live *live, tdmi_seat *seat, int64_t since_ns)
{
    const tdmi_client *client = client_of(live, seat);
    const char state = tdmi_who_state(seat->pid);
    if (state == 'X' || state == 'Z' || client == NULL)
        snprintf(seat->missing, sizeof seat->missing, "process %d has ended", (int)seat->pid);
    else if (state == 'T' || state == 't')
        snprintf(seat->missing, sizeof seat->missing, "process %d is stopped (kill -CONT %d lets it go on)", (int)seat->pid, (int)seat->pid);
    else if (client->taken_ns <= since_ns)
        snprintf(seat->missing, sizeof seat->missing, "process %d did not take the request up: it last asked %.0f s ago%s", (int)seat->pid,
                 (double)(tdmi_now_ns() - client->last_ns) / 1e9, client->last.idle ? "" : ", while its script's own profiler was on");
    else if (!client->last.idle)
        snprintf(seat->missing, sizeof seat->missing, "process %d is still tracing: its step does not end", (int)seat->pid);
    else
        snprintf(seat->missing, sizeof seat->missing, "process %d took the request up %.0f s ago and has not come to the step that was asked for: it evaluates, "
                 "saves, or waits for another rank", (int)seat->pid, (double)(tdmi_now_ns() - client->taken_ns) / 1e9);
}

static tdm_status await_files(tdm_live *live, tdmi_seat *seats, size_t count, int64_t since_ns, double patience_s)
{
    const int64_t deadline_ns = tdmi_deadline_in(patience_s);
    for (size_t waiting = count; waiting > 0;) {
        const bool over = tdmi_deadline_passed(deadline_ns);
        waiting = 0;
        for (size_t i = 0; i < count; i++) {
            if (seats[i].missing[0] != '\0' || is_there(seats[i].file))
                continue;
            const tdmi_client *client = client_of(live, &seats[i]);
            if (over || client == NULL || client->taken_ns <= since_ns || !tdmi_who_lives(seats[i].pid))
                say_why(live, &seats[i], since_ns);
            else
                waiting++;
        }
        tdm_status status = tdmi_live_goes_on(live);
        if (status != TDM_OK)
            return status;
        if (waiting > 0)
            tdmi_live_turn(live, TURN_MS);
    }
    return TDM_OK;
}

tdm_status tdmi_ask(tdm_live *live, tdmi_seat *seats, size_t count, tdmi_request request, const char *name, double patience_s)
{
    const int64_t since_ns = tdmi_now_ns();
    tdm_status status = write_requests(live, seats, count, request, name);
    if (status != TDM_OK)
        return status;
    live->under_way = true;
    status = hand_out(live, seats, count, since_ns);
    withdraw(live, seats, count);
    if (status == TDM_OK)
        status = await_files(live, seats, count, since_ns, patience_s);
    if (status != TDM_OK)
        return status;
    live->under_way = false;
    for (size_t i = 0; i < count; i++)
        live->under_way |= seats[i].missing[0] != '\0';
    return TDM_OK;
}
