/* notes.c - short messages between the ranks of a group, by MPI's point-to-point calls: news of failures and departures, what a
 * rank is at, announcements of messages.
 *
 * All groups of a process share one communicator, and a note says by its key for which group it is. So a group that is gone
 * leaves nothing behind in a communicator of its own, which MPI might give to the next: notes that nobody waits for any more
 * are read here and fall out of a list that is not long. Nothing blocks: one receive is under way at a time, and what is sent
 * lies here until MPI has it. Everything is guarded by mpi_lock. */
#include "engine/mpi/internal.h"

#include "core/clock.h"
#include "core/memory.h"

#include <string.h>

#define TAG 1
#define STRAYS 256  /* notes kept for groups that this rank has not opened yet, or has left */
#define LINGER_S 0.5

typedef struct mpi_note {
    struct mpi_note *next;
    int from;          /* in MPI_COMM_WORLD */
    MPI_Request request;
    size_t nbytes;     /* behind the key */
    uint64_t key;      /* sent as these bytes: ranks of one MPI job are alike */
    uint8_t bytes[];
} mpi_note;

static MPI_Comm comm = MPI_COMM_NULL;
static mpi_engine *engines;
static mpi_note *sending, *receiving, *strays;
static int stray_count;

tdm_status mpi_notes_init(void)
{
    tdm_status status = mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    if (status == TDM_OK)
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return status;
}

static mpi_note *make_note(size_t nbytes)
{
    mpi_note *note = tdmi_calloc(1, sizeof *note + nbytes, "engine mpi");
    if (note != NULL)
        note->nbytes = nbytes;
    return note;
}

static int wire_bytes(const mpi_note *note)
{
    return (int)(sizeof note->key + note->nbytes);
}

static void free_sent(void)
{
    for (mpi_note **at = &sending; *at != NULL;) {
        mpi_note *note = *at;
        int over = 0;
        (void)MPI_Test(&note->request, &over, MPI_STATUS_IGNORE);
        if (!over) {
            at = &note->next;
            continue;
        }
        *at = note->next;
        tdmi_free(note);
    }
}

tdm_status mpi_tell(tdmi_engine *base, int rank, const void *bytes, size_t nbytes)
{
    mpi_engine *engine = (mpi_engine *)base;
    mpi_note *note = make_note(nbytes);
    if (note == NULL)
        return TDM_ERR_NO_MEMORY;
    note->key = engine->key;
    memcpy(note->bytes, bytes, nbytes);
    pthread_mutex_lock(&mpi_lock);
    tdm_status status = mpi_check(MPI_Isend(&note->key, wire_bytes(note), MPI_BYTE, engine->world[rank], TAG, comm, &note->request),
                                  "MPI_Isend");
    if (status == TDM_OK) {
        note->next = sending;
        sending = note;
        free_sent();
    }
    pthread_mutex_unlock(&mpi_lock);
    if (status != TDM_OK)
        tdmi_free(note);
    return status;
}

static void append(mpi_engine *engine, mpi_note *note)
{
    note->next = NULL;
    *engine->heard_last = note;
    engine->heard_last = &note->next;
}

/* To the group it is for, or to the strays, of which the oldest goes. */
static void deliver(mpi_note *note)
{
    mpi_engine *engine = engines;
    while (engine != NULL && engine->key != note->key)
        engine = engine->next;
    if (engine != NULL) {
        append(engine, note);
        return;
    }
    mpi_note **at = &strays;
    while (*at != NULL)
        at = &(*at)->next;
    note->next = NULL;
    *at = note;
    if (++stray_count <= STRAYS)
        return;
    note = strays;
    strays = note->next;
    stray_count--;
    tdmi_free(note);
}

/* *came: a note was received whole. */
static tdm_status receive(bool *came)
{
    MPI_Message message;
    MPI_Status found;
    int there = 0, nbytes = 0;
    *came = false;
    if (receiving == NULL) {
        tdm_status status = mpi_check(MPI_Improbe(MPI_ANY_SOURCE, TAG, comm, &there, &message, &found), "MPI_Improbe");
        if (status != TDM_OK || !there)
            return status;
        MPI_Get_count(&found, MPI_BYTE, &nbytes);
        if (nbytes < (int)sizeof receiving->key || (size_t)nbytes > sizeof receiving->key + TDMI_ENGINE_NOTE)
            return tdmi_fail(TDM_ERR_INTERNAL, "engine mpi: a note of %d bytes came from rank %d", nbytes, found.MPI_SOURCE);
        mpi_note *note = make_note((size_t)nbytes - sizeof note->key);
        if (note == NULL)
            return TDM_ERR_NO_MEMORY;
        note->from = found.MPI_SOURCE;
        receiving = note;
        status = mpi_check(MPI_Imrecv(&note->key, nbytes, MPI_BYTE, &message, &note->request), "MPI_Imrecv");
        if (status != TDM_OK)
            return status;
    }
    tdm_status status = mpi_check(MPI_Test(&receiving->request, &there, MPI_STATUS_IGNORE), "MPI_Test");
    if (status != TDM_OK || !there)
        return status;
    mpi_note *note = receiving;
    receiving = NULL;
    *came = true;
    deliver(note);
    return TDM_OK;
}

tdm_status mpi_hear(tdmi_engine *base, int *rank_out, uint8_t bytes[TDMI_ENGINE_NOTE], size_t *nbytes_out)
{
    mpi_engine *engine = (mpi_engine *)base;
    bool came = true;
    tdm_status status = TDM_OK;
    *nbytes_out = 0;
    pthread_mutex_lock(&mpi_lock);
    while (status == TDM_OK && came && engine->heard == NULL)
        status = receive(&came);
    mpi_note *note = status == TDM_OK ? engine->heard : NULL;
    if (note != NULL && (engine->heard = note->next) == NULL)
        engine->heard_last = &engine->heard;
    if (sending != NULL)
        free_sent();
    pthread_mutex_unlock(&mpi_lock);
    if (note == NULL)
        return status;
    int rank = 0;
    while (rank < base->size - 1 && engine->world[rank] != note->from)
        rank++;
    *rank_out = rank;
    *nbytes_out = note->nbytes;
    memcpy(bytes, note->bytes, note->nbytes);
    tdmi_free(note);
    return TDM_OK;
}

void mpi_notes_open(mpi_engine *engine)
{
    engine->heard_last = &engine->heard;
    engine->next = engines;
    engines = engine;
    for (mpi_note **at = &strays; *at != NULL;) {
        mpi_note *note = *at;
        if (note->key != engine->key) {
            at = &note->next;
            continue;
        }
        *at = note->next;
        stray_count--;
        append(engine, note);
    }
}

static void free_list(mpi_note *note)
{
    while (note != NULL) {
        mpi_note *next = note->next;
        tdmi_free(note);
        note = next;
    }
}

void mpi_notes_close(mpi_engine *engine)
{
    for (mpi_engine **at = &engines; *at != NULL; at = &(*at)->next)
        if (*at == engine) {
            *at = engine->next;
            break;
        }
    free_list(engine->heard);
    engine->heard = NULL;
}

/* The last notes say why a group died: they leave before this process does, if the others take them. */
void mpi_notes_end(void)
{
    const int64_t deadline_ns = tdmi_deadline_in(LINGER_S);
    bool came = true;
    while (came && receive(&came) == TDM_OK)
        ;
    for (free_sent(); sending != NULL && !tdmi_deadline_passed(deadline_ns); free_sent())
        ;
    free_list(strays);
    strays = NULL;
}
