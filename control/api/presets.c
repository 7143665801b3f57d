/*
 * Presets and their images. Worker threads; asks the engine.
 */
#include "control/api/api.h"

static void presets_render_image(struct json_writer *w, struct api *api, const char *name,
                                 bool build)
{
    struct sandbox_image image;
    struct err e;
    json_object(w, "image");
    json_text(w, "name", name);
    if (sandbox_image(api->sandboxes, name, build, &image, &e) == 0) {
        json_text(w, "status", image.state);
        json_text(w, "tag", image.tag);
        json_int(w, "percent", image.percent);
        json_text(w, "step", image.step);
        json_text(w, "error", image.error[0] ? image.error : NULL);
    } else {
        json_text(w, "status", "unknown");
        json_null(w, "tag");
        json_int(w, "percent", 0);
        json_text(w, "step", "");
        json_text(w, "error", e.msg);
    }
    json_object_end(w);
}

static void presets_render(struct json_writer *w, struct api *api,
                           const struct sandbox_preset *preset, bool build)
{
    json_object(w, NULL);
    json_text(w, "label", preset->label);
    json_text(w, "description", preset->description);
    json_int(w, "port", preset->port);
    json_int(w, "memory_bytes", preset->memory_bytes);
    presets_render_image(w, api, preset->image, build);
    json_text(w, "id", preset->id);
    json_object_end(w);
}

void api_presets_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    size_t count = 0;
    const struct sandbox_preset *list = sandbox_presets(api->sandboxes, &count);
    struct json_writer w;
    (void)r;
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "presets");
    for (size_t i = 0; i < count; i++) {
        presets_render(&w, api, &list[i], false);
    }
    json_array_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

void api_presets_image(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const struct sandbox_preset *preset = sandbox_preset_find(api->sandboxes, r->params[0]);
    struct json_writer w;
    if (!preset) {
        http_error(p, "not_found", "there is no such preset; GET /v1/presets lists them");
        return;
    }
    json_begin(&w, &p->body);
    presets_render(&w, api, preset, true);
    api_json(p, 202);
}
