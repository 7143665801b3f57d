/*
 * Hub of events. Any thread; its lock is a leaf.
 */
#include "engine/hub.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/mem.h"
#include "lib/thread.h"

struct hub_follower {
    struct hub_follower *next;
    int fd;
    size_t first; /* of the ring */
    size_t count;
    bool has_lost;
    struct hub_event queue[HUB_QUEUE_MAX];
};

struct hub {
    pthread_mutex_t lock;
    struct hub_follower *followers;
    struct hub_event docker; /* the last word about Docker */
    bool has_docker;
};

struct hub *hub_new(void)
{
    struct hub *h = mem_alloc(sizeof(*h));
    (void)pthread_mutex_init(&h->lock, NULL);
    h->docker = (struct hub_event){.kind = HUB_DOCKER, .error = "not asked yet"};
    return h;
}

void hub_free(struct hub *h)
{
    if (h) {
        (void)pthread_mutex_destroy(&h->lock);
        free(h);
    }
}

static void follower_push(struct hub_follower *f, const struct hub_event *event)
{
    uint64_t one = 1;
    if (f->count == HUB_QUEUE_MAX) {
        f->has_lost = true;
    } else {
        f->queue[(f->first + f->count++) % HUB_QUEUE_MAX] = *event;
    }
    (void)!write(f->fd, &one, sizeof(one));
}

void hub_publish(struct hub *h, const struct hub_event *event)
{
    LOCK_GUARD(&h->lock);
    if (event->kind == HUB_DOCKER) {
        if (h->has_docker && h->docker.is_up == event->is_up &&
            strcmp(h->docker.error, event->error) == 0) {
            return;
        }
        h->docker = *event;
        h->has_docker = true;
    }
    for (struct hub_follower *f = h->followers; f; f = f->next) {
        follower_push(f, event);
    }
}

struct hub_follower *hub_join(struct hub *h)
{
    struct hub_follower *f = mem_alloc(sizeof(*f));
    f->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LOCK_GUARD(&h->lock);
    f->next = h->followers;
    h->followers = f;
    follower_push(f, &h->docker);
    return f;
}

void hub_leave(struct hub *h, struct hub_follower *take_f)
{
    {
        LOCK_GUARD(&h->lock);
        for (struct hub_follower **at = &h->followers; *at; at = &(*at)->next) {
            if (*at == take_f) {
                *at = take_f->next;
                break;
            }
        }
    }
    if (take_f->fd >= 0) {
        (void)close(take_f->fd);
    }
    free(take_f);
}

int hub_follower_fd(const struct hub_follower *f)
{
    return f->fd;
}

int hub_next(struct hub *h, struct hub_follower *f, struct hub_event *ret)
{
    LOCK_GUARD(&h->lock);
    if (f->has_lost) {
        return -1;
    }
    if (f->count == 0) {
        uint64_t ignored = 0;
        (void)!read(f->fd, &ignored, sizeof(ignored));
        return 0;
    }
    *ret = f->queue[f->first];
    f->first = (f->first + 1) % HUB_QUEUE_MAX;
    f->count--;
    return 1;
}
